package proxy

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"mete/proxy/openapi"
)

// TestEveryRouteAndCodeIsInTheOpenAPIDocument, and nothing else.
func TestEveryRouteAndCodeIsInTheOpenAPIDocument(t *testing.T) {
	var document struct {
		Paths      map[string]map[string]json.RawMessage
		Components struct {
			Schemas struct{ ErrorCode struct{ Enum []string } }
		}
	}
	if err := json.Unmarshal(openapi.JSON(), &document); err != nil {
		t.Fatal(err)
	}
	var documented, served []string
	for path, members := range document.Paths {
		if _, admin := members["servers"]; !admin {
			documented = append(documented, path)
		}
	}
	served = slices.Collect(maps.Keys(endpoints))
	served = append(slices.AppendSeq(served, maps.Keys(routeNames)), "/v1/models/{id}")
	slices.Sort(documented)
	slices.Sort(served)
	if !slices.Equal(documented, served) {
		t.Errorf("the document has %v\nserved are %v", documented, served)
	}
	codes := document.Components.Schemas.ErrorCode.Enum
	used := usedCodes(t)
	for _, code := range codes {
		if !used[code] {
			t.Errorf("the document has %s, the source has not", code)
		}
	}
	for code := range used {
		if !slices.Contains(codes, code) {
			t.Errorf("%s is not in the document", code)
		}
	}
}
