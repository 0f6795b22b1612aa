// A registry in memory, for tests: with the referrers API or, as older ones are, without it.
package main

import (
	"crypto/subtle"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
)

func main() {
	address := flag.String("address", "127.0.0.1:0", "where to listen")
	referrers := flag.Bool("referrers", true, "serve the referrers API")
	basic := flag.String("basic", "", "user:password to demand")
	flag.Parse()

	handler := registry.New(
		registry.WithReferrersSupport(*referrers),
		registry.WithBlobHandler(registry.NewInMemoryBlobHandler()),
		registry.Logger(log.New(io.Discard, "", 0)),
	)
	if *basic != "" {
		handler = guarded(handler, *basic)
	}
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listening on %s\n", listener.Addr())

	// Whoever started us holds our standard input: when that closes, nobody needs us any more.
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(server.Serve(listener))
}

func guarded(next http.Handler, credentials string) http.Handler {
	user, password, _ := strings.Cut(credentials, ":")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u, p, _ := r.BasicAuth()
		if subtle.ConstantTimeCompare([]byte(u+":"+p), []byte(user+":"+password)) != 1 {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			http.Error(w, `{"errors":[{"code":"UNAUTHORIZED","message":"credentials are wanted"}]}`, http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}
