module null_extender

go 1.24
