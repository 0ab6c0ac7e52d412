module example.com/votes

go 1.26.0

require github.com/headrace/headrace/sdk/go v0.1.0

require google.golang.org/protobuf v1.36.12 // indirect

replace github.com/headrace/headrace/sdk/go => ../../sdk/go
