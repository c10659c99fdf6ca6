// Package openapi holds the description of the gateway's HTTP API, OpenAPI 3.1,
// as it is served. Tests of the whole gateway hold routes, error codes and
// answers against it.
package openapi

import (
	_ "embed" // the document
	"fmt"
	"sync"

	"github.com/goccy/go-yaml"
)

//go:embed openapi.yaml
var document []byte

// JSON is the document. It is shared, and not to be changed.
var JSON = sync.OnceValue(func() []byte {
	b, err := yaml.YAMLToJSON(document)
	if err != nil {
		panic(fmt.Errorf("openapi.yaml, which is part of the program: %w", err)) // a test reads it
	}
	return b
})
