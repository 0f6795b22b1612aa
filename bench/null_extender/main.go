// Command null_extender is a scheduler extender that decides nothing, and so the
// floor that others are measured against. filter returns every name that it is
// sent, prioritize gives each the same score, bind writes one Binding. Only the
// standard library is used, so that it is built without a network.
//
// The API server and the credentials are those of a pod: KUBERNETES_SERVICE_HOST,
// KUBERNETES_SERVICE_PORT, and a folder with token and ca.crt.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// The types of k8s.io/kube-scheduler/extender/v1, as far as they are read: the
// pod is skipped by the decoder.
type arguments struct {
	NodeNames []string
}

type filterResult struct {
	NodeNames []string
}

type hostPriority struct {
	Host  string
	Score int64
}

type bindingArguments struct {
	PodName, PodNamespace, PodUID, Node string
}

type bindingResult struct {
	Error string `json:",omitempty"`
}

type metadata struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	UID       string `json:"uid"`
}

type target struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

type binding struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   metadata `json:"metadata"`
	Target     target   `json:"target"`
}

// apiServer writes Bindings over pooled connections.
type apiServer struct {
	client *http.Client
	url    string
	token  string
}

func newAPIServer(folder string) (*apiServer, error) {
	token, err := os.ReadFile(filepath.Join(folder, "token"))
	if err != nil {
		return nil, err
	}
	authority, err := readAuthority(filepath.Join(folder, "ca.crt"))
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: authority, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2:   true, // as client-go does
		MaxIdleConnsPerHost: 100,
	}
	host := net.JoinHostPort(os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT"))
	client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
	return &apiServer{client, "https://" + host, strings.TrimSpace(string(token))}, nil
}

func (s *apiServer) bind(ctx context.Context, args bindingArguments) error {
	meta := metadata{args.PodName, args.PodNamespace, args.PodUID}
	body, err := json.Marshal(binding{"v1", "Binding", meta, target{"Node", args.Node}})
	if err != nil {
		return err
	}
	url := fmt.Sprintf("%s/api/v1/namespaces/%s/pods/%s/binding", s.url, args.PodNamespace, args.PodName)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+s.token)
	answer, err := s.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("binding %s/%s: %s: %.300s", args.PodNamespace, args.PodName, answer.Status, text)
	}
	return nil
}

func readAuthority(path string) (*x509.CertPool, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate", path)
	}
	return pool, nil
}

// handle decodes a request, and encodes what answer makes of it.
func handle[A any](answer func(context.Context, A) any) http.HandlerFunc {
	return func(writer http.ResponseWriter, request *http.Request) {
		var args A
		body, err := io.ReadAll(request.Body)
		if err == nil {
			err = json.Unmarshal(body, &args)
		}
		var reply []byte
		if err == nil {
			reply, err = json.Marshal(answer(request.Context(), args))
		}
		if err != nil {
			http.Error(writer, err.Error(), http.StatusBadRequest)
			return
		}
		writer.Header().Set("Content-Type", "application/json")
		_, _ = writer.Write(reply)
	}
}

// newHandler answers the three verbs. keep is how many names filter leaves, 0
// for all: how much kube-scheduler gains by fewer.
func newHandler(api *apiServer, keep int) http.Handler {
	routes := http.NewServeMux()
	routes.HandleFunc("POST /filter", handle(func(_ context.Context, args arguments) any {
		if keep > 0 && keep < len(args.NodeNames) {
			return filterResult{args.NodeNames[:keep]}
		}
		return filterResult(args)
	}))
	routes.HandleFunc("POST /prioritize", handle(func(_ context.Context, args arguments) any {
		scores := make([]hostPriority, len(args.NodeNames))
		for i, name := range args.NodeNames {
			scores[i].Host = name
		}
		return scores
	}))
	routes.HandleFunc("POST /bind", handle(func(ctx context.Context, args bindingArguments) any {
		if err := api.bind(ctx, args); err != nil {
			log.Print(err)
			return bindingResult{err.Error()}
		}
		return bindingResult{}
	}))
	return routes
}

func run() error {
	listen := flag.String("listen", "127.0.0.1:32766", "address to serve on")
	certificate := flag.String("tls-cert", "", "certificate of this server (PEM)")
	key := flag.String("tls-key", "", "its private key (PEM)")
	clientCA := flag.String("client-ca", "", "authority that signed the clients' certificates (PEM)")
	account := flag.String("account", "/var/run/secrets/kubernetes.io/serviceaccount", "folder of token and ca.crt")
	keep := flag.Int("keep", 0, "names that filter leaves; 0 for all")
	http1 := flag.Bool("http1", false, "serve HTTP/1.1 only")
	flag.Parse()

	api, err := newAPIServer(*account)
	if err != nil {
		return err
	}
	authority, err := readAuthority(*clientCA)
	if err != nil {
		return err
	}
	config := &tls.Config{ClientCAs: authority, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12}
	server := &http.Server{Addr: *listen, Handler: newHandler(api, *keep), TLSConfig: config, ReadHeaderTimeout: 10 * time.Second}
	if *http1 {
		server.Protocols = new(http.Protocols)
		server.Protocols.SetHTTP1(true)
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-stop
		_ = server.Close()
	}()
	if err := server.ListenAndServeTLS(*certificate, *key); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}
