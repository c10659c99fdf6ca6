package sim

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestParseFaultRefusesWhatItDoesNotKnow(t *testing.T) {
	for _, text := range []string{"explode", "cut; at", "cut; at=x", "cut; how=soft", "cut; of=soul", "hang; where=there", "status; code=99",
		"status; shape=round", "hang; for=soon", "queue_full; as=song", "slow; factor=0", "cut; at=-1", "cut; color=red"} {
		if f, err := ParseFault(text); err == nil {
			t.Errorf("%q was taken for %+v", text, f)
		}
	}
	if f, err := ParseFault("  "); err != nil || f.Kind != NoFault {
		t.Errorf("%+v, %v", f, err)
	}
}

// Every way to ask for a fault has the same effect.
func TestAFaultCanBeAskedForInFourWays(t *testing.T) {
	r := start(t, Config{})
	const fault = "status; code=429; shape=flat; retry_after=7; message=slow down"
	const want = `{"object":"error","message":"slow down","type":"RateLimitError","param":null,"code":429}`
	check := func(how string, resp *http.Response, body []byte) {
		t.Helper()
		if resp.StatusCode != 429 || string(body) != want || resp.Header.Get("retry-after") != "7" {
			t.Errorf("%s: %d %v %s", how, resp.StatusCode, resp.Header, body)
		}
	}
	resp, body, _ := do(t, r, "POST", chatPath, hello, "x-sim-fault", fault)
	check("header", resp, body)
	resp, body, _ = do(t, r, "POST", chatPath, strings.Replace(hello, `{`, `{"sim_fault":"`+fault+`",`, 1))
	check("body", resp, body)
	if status, _ := post(t, r, "/sim/fault", fault+"; times=1"); status != http.StatusNoContent {
		t.Fatalf("POST /sim/fault: %d", status)
	}
	resp, body, _ = do(t, r, "POST", chatPath, hello)
	check("POST /sim/fault", resp, body)
	f, err := ParseFault(fault + "; times=2; path=" + chatPath)
	if err != nil {
		t.Fatal(err)
	}
	_ = r.SetFault(f)
	if status, _ := post(t, r, "/v1/completions", `{"prompt":"x"}`); status != 200 {
		t.Errorf("another path: %d", status)
	}
	for range 2 {
		resp, body, _ = do(t, r, "POST", chatPath, hello)
		check("SetFault", resp, body)
	}
	if status, _ := post(t, r, chatPath, hello); status != 200 {
		t.Errorf("after its times: %d", status)
	}
	await(t, r, func(s Stats) bool { return s.Failed == 5 && s.Finished == 2 })
}

func TestErrorShapes(t *testing.T) {
	r := start(t, Config{})
	for shape, want := range map[string]string{
		"nested": `{"error":{"message":"no \"luck\"","type":"InternalServerError","param":null,"code":500}}`,
		"flat":   `{"object":"error","message":"no \"luck\"","type":"InternalServerError","param":null,"code":500}`,
		"string": `{"error":{"message":"no \"luck\"","type":"InternalServerError","param":null,"code":"500"}}`,
		"bare":   `{"error":"no \"luck\""}`,
		"empty":  ``,
		"plain":  `Internal Server Error`,
	} {
		status, body := post(t, r, chatPath, hello, "x-sim-fault", `status; code=500; message=no "luck"; shape=`+shape)
		if status != 500 || body != want {
			t.Errorf("%s: %d %s", shape, status, body)
		}
	}
}

func TestBadRequestsAreRefusedAsVLLMDoes(t *testing.T) {
	r := start(t, Config{MaxModelLen: 100})
	long := `{"messages":[{"role":"user","content":"` + strings.Repeat("word ", 200) + `"}]}`
	for _, row := range []struct {
		name, path, body string
		status           int
		want             string
	}{
		{"not JSON", chatPath, `{"a":`, 400, "JSON decode error"},
		{"not an object", chatPath, `[]`, 400, "valid dictionary"},
		{"no messages", chatPath, `{}`, 400, "'messages'"},
		{"a message without a role", chatPath, `{"messages":[{"content":"x"}]}`, 400, "'role'"},
		{"an unknown model", chatPath, strings.Replace(hello, "sim", "gpt", 1), 404, "The model `gpt` does not exist."},
		{"a prompt that is too long", chatPath, long, 400, `"param":"input_tokens","code":400`},
		{"an output that is too long", chatPath, strings.Replace(hello, `{`, `{"max_tokens":99,`, 1), 400, "maximum context length is 100 tokens"},
		{"max_tokens of nothing", chatPath, strings.Replace(hello, `{`, `{"max_tokens":0,`, 1), 400, "max_tokens must be at least 1"},
		{"n of nothing", chatPath, strings.Replace(hello, `{`, `{"n":0,`, 1), 400, "n must be at least 1"},
		{"stream_options without stream", chatPath, strings.Replace(hello, `{`, `{"stream_options":{},`, 1), 400, "stream=True"},
		{"tool_choice without tools", chatPath, strings.Replace(hello, `{`, `{"tool_choice":"required",`, 1), 400, "tools"},
		{"a tool that is not there", chatPath, strings.Replace(hello, `{`, `{"tools":[{"function":{"name":"a"}}],"tool_choice":{"function":{"name":"b"}},`, 1), 400, "does not match"},
		{"no prompt", "/v1/completions", `{}`, 400, "'prompt'"},
		{"no documents", "/rerank", `{"query":"x"}`, 400, "'documents'"},
		{"no input", "/v1/responses", `{}`, 400, "'input'"},
		{"a fault that is not known", chatPath, strings.Replace(hello, `{`, `{"sim_fault":"x",`, 1), 400, "unknown fault"},
		{"an unknown path", "/v1/nothing", `{}`, 404, "Not Found"},
		{"the wrong method", "/v1/models", `{}`, 405, "Method Not Allowed"},
		{"a response of another replica", "/v1/responses", `{"input":"x","previous_response_id":"resp_1"}`, 404, "not found"},
	} {
		t.Run(row.name, func(t *testing.T) {
			status, body := post(t, r, row.path, row.body)
			if status != row.status || !strings.Contains(body, row.want) {
				t.Errorf("%d %s, want %d with %q", status, body, row.status, row.want)
			}
		})
	}
	if status, body := post(t, r, chatPath, hello, "Content-Type", "text/plain"); status != 400 {
		t.Errorf("text/plain: %d %s", status, body)
	}
}

func wholeResponse(t *testing.T, r *Replica, body string) string {
	t.Helper()
	c := dial(t, r)
	c.send(t, rawPost(chatPath, body, "x-request-id: same", "connection: close"))
	all, err := c.rest()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// cutAt asks for the fault and returns what arrived.
func cutAt(t *testing.T, r *Replica, body, fault string) (string, error) {
	t.Helper()
	c := dial(t, r)
	c.send(t, rawPost(chatPath, body, "x-request-id: same", "connection: close", "x-sim-fault: "+fault))
	return c.rest()
}

func TestACutComesAtEveryByte(t *testing.T) {
	r := start(t, Config{OutputTokens: 2, Created: 1700000000})
	for _, body := range []string{hello, streamed} {
		whole := wholeResponse(t, r, body)
		for at := 0; at < len(whole); at++ {
			for _, how := range []string{"fin", "rst"} {
				got, err := cutAt(t, r, body, "cut; of=response; how="+how+"; at="+strconv.Itoa(at))
				// the date can change between two answers; lengths cannot
				if len(got) != at || strings.Contains(got, "data: ") && !strings.HasSuffix(whole[:at], got[strings.Index(got, "data: "):]) {
					t.Fatalf("%s at %d: %d bytes, %v", how, at, len(got), err)
				}
				if reset := errors.Is(err, syscall.ECONNRESET); reset != (how == "rst") {
					t.Fatalf("%s at %d ended with %v", how, at, err)
				}
			}
		}
	}
	await(t, r, func(s Stats) bool { return s.Active == 0 && s.Connections == 0 })
	if s := r.Stats(); s.Aborted != 0 {
		t.Errorf("%+v", s)
	}
}

func TestACutCountsPayloadBytes(t *testing.T) {
	r := start(t, Config{OutputTokens: 3, Created: 1700000000})
	for _, body := range []string{hello, streamed} {
		payload, err := Render(r.cfg, chatPath, "same", []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range []int{0, 1, 100, len(payload) - 1, len(payload)} {
			resp, got, err := do(t, r, "POST", chatPath, body, "X-Request-Id", "same", "x-sim-fault", "cut; at="+strconv.Itoa(at))
			if resp == nil {
				t.Fatalf("at %d no header came: %v", at, err)
			}
			if string(got) != string(payload[:at]) {
				t.Errorf("at %d got %q", at, got)
			}
			whole := at == len(payload) && body == hello // a content-length is fulfilled, a chunked body is not ended
			if (err == nil) != whole {
				t.Errorf("at %d of %d: %v", at, len(payload), err)
			}
		}
	}
}

func TestErrorEvents(t *testing.T) {
	r := start(t, Config{OutputTokens: 9})
	for _, row := range []struct {
		name, fault string
		before      int
		code        string
	}{
		{"as the first event", "error; after=0", 0, `"code":500}`},
		{"mid-stream", "error; after=4; code=503", 4, `"code":503}`},
		{"of a full queue", "queue_full; as=event", 0, `"code":503}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			status, body := post(t, r, chatPath, streamed, "x-sim-fault", row.fault)
			got := chunks(t, body)
			if status != 200 || len(got) != row.before+1 || !strings.HasPrefix(got[row.before], `{"error":{"message":`) || !strings.Contains(got[row.before], row.code) {
				t.Errorf("%d %q", status, got)
			}
		})
	}
	if status, body := post(t, r, chatPath, hello, "x-sim-fault", "error; code=502"); status != 502 {
		t.Errorf("not streamed: %d %s", status, body)
	}
	if status, body := post(t, r, chatPath, streamed, "x-sim-fault", "queue_full"); status != 503 {
		t.Errorf("full queue as status: %d %s", status, body)
	}
	await(t, r, func(s Stats) bool { return s.Failed == 5 && s.Finished == 0 && s.Active == 0 })
}

func TestAbortAndEnd(t *testing.T) {
	r := start(t, Config{OutputTokens: 9})
	_, body := post(t, r, chatPath, streamed, "x-sim-fault", "abort; after=2")
	if got := chunks(t, body); len(got) != 4 || !strings.Contains(got[3], `"finish_reason":"abort"`) {
		t.Errorf("abort: %q", got)
	}
	_, body = post(t, r, chatPath, hello, "x-sim-fault", "abort; after=2")
	mustContain(t, body, `"finish_reason":"abort"`, `"completion_tokens":2`)
	_, body = post(t, r, chatPath, streamed, "x-sim-fault", "end; after=3")
	if n := strings.Count(body, "data: "); n != 3 || strings.Contains(body, "[DONE]") {
		t.Errorf("end: %q", body)
	}
}
