package proxy

import (
	"net/url"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"

	"mete/proxy/body"
	"mete/proxy/openapi"
)

// An endpoint is one of vLLM's inference endpoints.
type endpoint struct {
	name string // as a pool's configuration names it
	kind body.Kind
}

// endpoints are the only paths that can reach a replica: vLLM runs inference,
// and puts engines to sleep, on further ones that its own key does not guard.
var endpoints = map[string]*endpoint{
	"/v1/chat/completions": {"chat/completions", body.Chat},
	"/v1/completions":      {"completions", body.Completions},
	"/v1/embeddings":       {"embeddings", body.Embeddings},
	"/v1/responses":        {"responses", body.Other},
	"/v1/messages":         {"messages", body.Other},
	"/v1/score":            {"score", body.Other},
	"/score":               {"score", body.Other},
	"/v1/rerank":           {"rerank", body.Other},
	"/v2/rerank":           {"rerank", body.Other},
	"/rerank":              {"rerank", body.Other},
	"/tokenize":            {"tokenize", body.Other},
	"/detokenize":          {"detokenize", body.Other},
	"/pooling":             {"pooling", body.Other},
	"/classify":            {"classify", body.Other},
}

// handle routes one request. Every path that is not listed is a 404.
func (g *Gateway) handle(ctx *fasthttp.RequestCtx) {
	x := g.open(ctx)
	defer x.closeUnlessRelaying()
	if r := x.refusal; r != nil { // the header alone is reason enough
		x.refuse(r)
		lingerOn(ctx.Conn())
		ctx.Response.SetConnectionClose() // who knows where the next request begins
		return
	}
	if err := g.route(x); err != nil {
		x.refuse(err)
	}
}

func (g *Gateway) route(x *exchange) error {
	path := x.ctx.Request.URI().PathOriginal()
	if e, ok := endpoints[string(path)]; ok {
		if !x.ctx.IsPost() {
			return x.methodNotAllowed("POST")
		}
		return x.infer(e)
	}
	x.route = routeOf(path)
	switch {
	case string(path) == "/v1/models":
		return x.get(func() error { return x.answerJSON(x.table.list()) })
	case strings.HasPrefix(string(path), "/v1/models/"):
		return x.get(func() error { return x.modelEntry(string(path[len("/v1/models/"):])) })
	case string(path) == "/v1/auth/device/code":
		return x.device(x.g.deviceCode)
	case string(path) == "/v1/auth/device/token":
		return x.device(x.g.deviceToken)
	case string(path) == "/v1/auth/key":
		return x.ownKey()
	case string(path) == "/health":
		return x.get(x.health)
	case string(path) == "/openapi.json":
		return x.get(func() error { return x.answerJSON(openapi.JSON()) })
	}
	return callerRefusal(404, "unknown_url", "", "There is no such endpoint. The ones there are start with /v1; check the base URL.")
}

// routeNames are what metrics, logs and spans call the routes that are not
// inference.
var routeNames = map[string]string{
	"/v1/models": "models", "/v1/auth/device/code": "device/code", "/v1/auth/device/token": "device/token",
	"/v1/auth/key": "key", "/health": "health", "/openapi.json": "openapi",
}

// otherRoute stands for every path that is not one of ours: what a client sends
// there may be anything, a key included.
const otherRoute = "other"

// routes are the names of all routes.
func routes() []string {
	names := []string{"model", otherRoute}
	for _, name := range routeNames {
		names = append(names, name)
	}
	for _, e := range endpoints {
		if !slices.Contains(names, e.name) {
			names = append(names, e.name)
		}
	}
	return names
}

func routeOf(path []byte) string {
	if name, ok := routeNames[string(path)]; ok {
		return name
	}
	if strings.HasPrefix(string(path), "/v1/models/") {
		return "model"
	}
	return otherRoute
}

// get answers a GET, and a HEAD likewise; other methods are refused.
func (x *exchange) get(answer func() error) error {
	if !x.ctx.IsGet() && !x.ctx.IsHead() {
		return x.methodNotAllowed("GET, HEAD")
	}
	return answer()
}

func (x *exchange) methodNotAllowed(allow string) error {
	x.ctx.Response.Header.Set("Allow", allow)
	return callerRefusal(405, "method_not_allowed", "", "This endpoint takes "+allow+" only.")
}

func (x *exchange) modelEntry(id string) error {
	if plain, err := url.PathUnescape(id); err == nil {
		id = plain
	}
	entry := x.table.entry(id)
	if entry == nil {
		return modelNotFound([]byte(id))
	}
	return x.answerJSON(entry)
}

// health tells clients of the API listener, which probe it before a benchmark,
// that requests may be sent.
func (x *exchange) health() error {
	if !x.g.Ready() {
		return refuseDraining
	}
	return x.answerJSON([]byte(`{"status":"ok"}`))
}

func (x *exchange) answerJSON(b []byte) error {
	x.status = fasthttp.StatusOK
	x.ctx.Response.Header.SetContentType("application/json")
	x.ctx.Response.SetBodyRaw(b)
	x.commonHeader()
	return nil
}
