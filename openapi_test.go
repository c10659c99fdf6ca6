package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pb33f/jsonschema/v6"
	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"

	"mete/config"
	"mete/proxy/openapi"
)

// contract is the OpenAPI document, as a validator reads it.
type contract struct {
	*testing.T
	validator.Validator
	client *http.Client
	seen   map[string]bool // error codes that answers had
}

func newContract(t *testing.T, client *http.Client) *contract {
	t.Helper()
	document, err := libopenapi.NewDocument(openapi.JSON())
	if err != nil {
		t.Fatal(err)
	}
	v, errs := validator.NewValidator(document)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return &contract{T: t, Validator: v, client: client, seen: map[string]bool{}}
}

// holds sends a request, which need not be a good one, and holds the answer
// against the document. It returns the answer's body.
func (c *contract) holds(status int, method, url, key, body string, header ...string) string {
	c.Helper()
	request, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		c.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := c.client.Do(request)
	if err != nil {
		c.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	b, _ := io.ReadAll(response.Body)
	if response.StatusCode != status {
		c.Errorf("%s %s: status %d %.300s, want %d", method, request.URL.Path, response.StatusCode, b, status)
	}
	var failed struct {
		Error struct{ Code any } `json:"error"`
	}
	if json.Unmarshal(b, &failed) == nil {
		if code, ok := failed.Error.Code.(string); ok {
			c.seen[code] = true
		}
	}
	response.Body = io.NopCloser(bytes.NewReader(b))
	if ok, faults := c.ValidateHttpResponse(request, response); !ok {
		for _, f := range faults {
			c.Errorf("%s %s, status %d: %s: %s %v in %.500s", method, request.URL.Path, status, f.Message, f.Reason, f.SchemaValidationErrors, b)
		}
	}
	return string(b)
}

// holdsNot sends a method that the document has not, so that the validator finds
// nothing to compare the refusal with but its schema.
func (c *contract) holdsNot(method, url string) {
	c.Helper()
	request, err := http.NewRequest(method, url, http.NoBody)
	if err != nil {
		c.Fatal(err)
	}
	response, err := c.client.Do(request)
	if err != nil {
		c.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	value, err := jsonschema.UnmarshalJSON(response.Body)
	if err == nil {
		err = c.schema("Error").Validate(value)
	}
	if err != nil || response.StatusCode != http.StatusMethodNotAllowed || response.Header.Get("Allow") == "" {
		c.Errorf("%s %s: %d %v", method, url, response.StatusCode, err)
	}
	c.seen["method_not_allowed"] = true
}

func TestOpenAPIDocumentIsOne(t *testing.T) {
	t.Parallel()
	if ok, faults := newContract(t, nil).ValidateDocument(); !ok {
		for _, f := range faults {
			t.Errorf("%s: %s %v", f.Message, f.Reason, f.SchemaValidationErrors)
		}
	}
}

// TestAnswersAreAsTheOpenAPIDocumentSays asks for every endpoint of both
// listeners, and for the errors that a caller can bring about.
func TestAnswersAreAsTheOpenAPIDocumentSays(t *testing.T) {
	s := startSystem(t, func(cfg *config.Config) {
		pool := cfg.Pools["general"]
		pool.Endpoints = []string{"chat/completions", "completions", "embeddings", "tokenize", "rerank", "score", "messages", "responses", "classify", "pooling", "detokenize"}
		cfg.Pools["general"] = pool
		plan := config.DefaultPlan()
		plan.DenyModels = []string{"mete-thinking"}
		plan.Limits = []config.Limit{{Tokens: 5000, Per: cfg.Plans["tight"].Limits[0].Per}}
		cfg.Plans["narrow"] = plan
		cfg.Listen.Console = "127.0.0.1:0"
		cfg.Bounds.Body = 1 << 20
	})
	c := newContract(t, s.client)
	c.callersAnswers(s, "http://"+s.gateways[0].api.Addr().String())
	c.deviceAnswers("http://" + s.gateways[0].api.Addr().String())
	c.adminAnswers("http://"+s.gateways[0].admin.Addr().String(), s.gateways[0].cfg().Keystore.AdminToken.Reveal())
	s.store.Kill()
	s.eventually(func() bool {
		status, _ := s.ask(0, "POST", chatPath, "sk-mete-"+strings.Repeat("e", 40), chatOf("mete"))
		return status == 503
	})
	c.holds(503, "POST", "http://"+s.gateways[0].api.Addr().String()+chatPath, "sk-mete-"+strings.Repeat("d", 40), chatOf("mete"))
	for _, code := range []string{
		"invalid_json", "missing_required_parameter", "invalid_type", "invalid_value", "duplicate_parameter", "field_not_allowed",
		"request_too_large_for_limit", "missing_api_key", "invalid_api_key", "revoked_api_key", "model_not_allowed", "model_not_found",
		"endpoint_not_served", "method_not_allowed", "body_too_large", "unsupported_media_type", "rate_limit_exceeded",
		"no_replica", "store_unavailable", "malformed_request",
	} {
		if !c.seen[code] {
			t.Errorf("no answer had the code %s", code)
		}
	}
}

func (c *contract) callersAnswers(s *system, api string) {
	chat := api + chatPath
	c.holds(200, "POST", chat, s.open, chatOf("mete"))
	stream := c.holds(200, "POST", chat, s.open, streamOf("mete"))
	c.events(stream, "ChatCompletionChunk")
	c.events(c.holds(200, "POST", chat, s.open, faultOf("mete", "cut; at=700")), "ChatCompletionChunk")
	c.holds(200, "POST", api+"/v1/completions", s.open, `{"model":"mete","prompt":"hello"}`)
	c.holds(200, "POST", api+"/v1/embeddings", s.open, `{"model":"mete","input":"hello"}`)
	c.holds(200, "POST", api+"/tokenize", s.open, `{"model":"mete","prompt":"hello"}`)
	c.holds(200, "GET", api+"/v1/models", "", "")
	c.holds(200, "GET", api+"/v1/models/mete", "", "")
	c.holds(404, "GET", api+"/v1/models/nobody", "", "")
	c.holds(200, "GET", api+"/health", "", "")
	c.holds(200, "GET", api+"/openapi.json", "", "")
	c.holdsNot("POST", api+"/v1/models")
	c.holdsNot("GET", api+"/v1/auth/device/token")
	c.holdsNot("PURGE", chat)
	for body, status := range map[string]int{
		`{"model":`: 400, `{"messages":[]}`: 400, `{"model":1,"messages":[]}`: 400, `{"model":"mete","model":"mete","messages":[{"role":"user","content":"x"}]}`: 400,
		`{"model":"mete","messages":[]}`: 400, chatOf("nobody"): 404, chatOf("gone"): 503,
		`{"model":"mete","priority":1,"messages":[{"role":"user","content":"x"}]}`:                   400,
		`{"model":"mete","temperature":9,"messages":[{"role":"user","content":"x"}]}`:                400,
		`{"model":"mete","sim_fault":"status; code=500","messages":[{"role":"user","content":"x"}]}`: 500,
	} {
		c.holds(status, "POST", chat, s.open, body)
	}
	c.holds(404, "POST", api+"/v1/score", s.open, `{"model":"shaky","text_1":"a","text_2":"b"}`)
	c.holds(401, "POST", chat, "", chatOf("mete"))
	c.holds(401, "POST", chat, "sk-mete-x", chatOf("mete"))
	c.holds(413, "POST", chat, s.open, `{"model":"mete","messages":[{"role":"user","content":"`+strings.Repeat("x", 2<<20)+`"}]}`)
	c.holds(415, "POST", chat, s.open, chatOf("mete"), "Content-Type", "text/plain")
	c.holds(417, "POST", chat, s.open, chatOf("mete"), "Expect", "a-miracle")
	c.holds(200, "POST", chat, s.tight, chatOf("mete"))
	c.holds(429, "POST", chat, s.tight, chatOf("mete"))
	narrow, _ := s.createKey("carl", "narrow")
	c.holds(403, "POST", chat, narrow, chatOf("mete-thinking"))
	c.holds(400, "POST", chat, narrow, `{"model":"mete","max_tokens":6000,"messages":[{"role":"user","content":"x"}]}`)
	c.holds(200, "GET", api+"/v1/auth/key", narrow, "")
	c.holds(401, "GET", api+"/v1/auth/key", "", "")
	c.holds(200, "DELETE", api+"/v1/auth/key", narrow, "")
	c.holds(401, "POST", chat, narrow, chatOf("mete"))
}

// events holds every event of a stream against the schema of its kind.
func (c *contract) events(stream, kind string) {
	c.Helper()
	chunk, cut := c.schema(kind), c.schema("StreamError")
	var n int
	for event := range strings.SplitSeq(stream, "\n\n") {
		data, ok := strings.CutPrefix(event, "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(data))
		if err != nil {
			continue // the piece of an event after which the stream was cut
		}
		n++
		schema := chunk
		if strings.HasPrefix(data, `{"error"`) {
			schema = cut
		}
		if err := schema.Validate(value); err != nil {
			c.Errorf("%s: %v", data, err)
		}
	}
	if n == 0 {
		c.Errorf("no events in %q", stream)
	}
}

func (c *contract) schema(name string) *jsonschema.Schema {
	c.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(openapi.JSON()))
	if err != nil {
		c.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("openapi.json", document); err != nil {
		c.Fatal(err)
	}
	schema, err := compiler.Compile("openapi.json#/components/schemas/" + name)
	if err != nil {
		c.Fatal(err)
	}
	return schema
}

func (c *contract) deviceAnswers(api string) {
	var started struct {
		DeviceCode string `json:"device_code"`
	}
	if err := json.Unmarshal([]byte(c.holds(200, "POST", api+"/v1/auth/device/code", "", `{"client_id":"test"}`)), &started); err != nil {
		c.Fatal(err)
	}
	poll := `{"device_code":"` + started.DeviceCode + `"}`
	c.holds(200, "POST", api+"/v1/auth/device/token", "", poll)
	c.holds(200, "POST", api+"/v1/auth/device/token", "", poll)
	c.holds(400, "POST", api+"/v1/auth/device/token", "", `{"grant_type":"urn:ietf:params:oauth:grant-type:device_code","device_code":"`+started.DeviceCode+`","client_id":"test"}`)
	c.holds(400, "POST", api+"/v1/auth/device/token", "", `{"device_code":"`+strings.Repeat("0", 40)+`"}`)
	c.holds(400, "POST", api+"/v1/auth/device/token", "", `{}`)
	c.holds(415, "POST", api+"/v1/auth/device/token", "", poll, "Content-Type", "text/plain")
}

func (c *contract) adminAnswers(admin, token string) {
	for _, path := range []string{"/metrics", "/healthz", "/readyz", "/debug/pprof/", "/debug/pools", "/debug/queue", "/debug/route?model=mete&tokens=5", "/openapi.json"} {
		c.holds(200, "GET", admin+path, "", "")
	}
	c.holds(400, "GET", admin+"/debug/route", "", "")
	c.holds(404, "GET", admin+"/debug/route?model=nobody", "", "")
	c.holds(200, "GET", admin+"/admin/usage", token, "")
	c.holds(400, "GET", admin+"/admin/usage?since=never", token, "")
	c.holds(401, "GET", admin+"/admin/usage", "", "")
	c.holds(200, "GET", admin+"/admin/log-level", token, "")
	c.holds(200, "PUT", admin+"/admin/log-level", token, `{"level":"warn"}`)
	c.holds(400, "PUT", admin+"/admin/log-level", token, `{"level":"loud"}`)
	var made struct{ ID string }
	if err := json.Unmarshal([]byte(c.holds(201, "POST", admin+"/admin/keys", token, `{"name":"dora","plan":"open","expires_in":"30d"}`)), &made); err != nil {
		c.Fatal(err)
	}
	c.holds(400, "POST", admin+"/admin/keys", token, `{"name":"dora","plan":"none"}`)
	c.holds(400, "POST", admin+"/admin/keys", token, `{"name":`)
	c.holds(200, "GET", admin+"/admin/keys?owner=dora", token, "")
	c.holds(201, "POST", admin+"/admin/keys/"+made.ID+"/rotate", token, `{"overlap":"1h"}`)
	c.holds(200, "DELETE", admin+"/admin/keys/"+made.ID, token, "")
	c.holds(409, "POST", admin+"/admin/keys/"+made.ID+"/rotate", token, `{}`)
	c.holds(404, "DELETE", admin+"/admin/keys/k_0000000000000000", token, "")
}

// TestEveryAdminRouteIsInTheOpenAPIDocument reads the patterns in the source.
func TestEveryAdminRouteIsInTheOpenAPIDocument(t *testing.T) {
	t.Parallel()
	documented := documentedRoutes(t)
	var served []string
	for _, file := range []string{"admin.go", "auth/api.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range regexp.MustCompile(`mux\.Handle(?:Func)?\("(GET|POST|PUT|DELETE) ([^"]+)"`).FindAllStringSubmatch(string(source), -1) {
			served = append(served, found[1]+" "+found[2])
		}
	}
	served = append(served, "GET /debug/pprof/")
	if len(served) < 12 {
		t.Fatalf("only %v were found", served)
	}
	for _, route := range served {
		if !slices.Contains(documented["admin"], route) && route != "GET /openapi.json" {
			t.Errorf("%s is not in the document", route)
		}
	}
	for _, route := range documented["admin"] {
		if !slices.Contains(served, route) {
			t.Errorf("%s is in the document and not served", route)
		}
	}
}

// documentedRoutes are the methods and paths of the document, by their tag.
func documentedRoutes(t *testing.T) map[string][]string {
	t.Helper()
	var document struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(openapi.JSON(), &document); err != nil {
		t.Fatal(err)
	}
	routes := map[string][]string{}
	for path, methods := range document.Paths {
		for method, raw := range methods {
			var operation struct{ Tags []string }
			if json.Unmarshal(raw, &operation) == nil && len(operation.Tags) > 0 {
				routes[operation.Tags[0]] = append(routes[operation.Tags[0]], strings.ToUpper(method)+" "+path)
			}
		}
	}
	return routes
}
