package sim

import (
	"errors"
	"net"
	"time"
)

// Config describes one replica. The zero value is usable: one model named
// "sim", no latency at all, a free port on 127.0.0.1.
type Config struct {
	Addr   string   // listen address; "127.0.0.1:0" when empty
	Models []string // served names; the first is the `model` of every answer
	Root   string   // `root` in /v1/models; the first name when empty
	LoRA   []string // adapters, served under their own names

	MaxModelLen int // prompt plus output, tokens; 32768 when 0

	Seed         uint64  // changes every text and every random draw
	Created      int64   // `created` of every answer, Unix seconds; the clock when 0
	OutputTokens int     // mean length of an answer that max_tokens does not end; 64 when 0
	OutputSpread float64 // answers differ in length by up to this share of OutputTokens, 0..1

	// Profile gives the timing model. Nil is instant mode: every token of an
	// answer is there at once, nothing queues, and the KV cache is not modelled.
	Profile *Profile
	Engines int // data-parallel engines, each with a scheduler of its own; 1 when 0

	// MaxQueued is vLLM's --max-num-queued-reqs: requests in flight (running
	// and waiting) above which new ones are refused. 0 is no limit.
	MaxQueued   int
	RefuseEvent bool // refuse streams with a 200 whose first event is the error

	APIKey     string        // guards /v1 when set
	KeepAlive  time.Duration // idle close; uvicorn's 5 s when 0, never when negative
	ErrorShape Shape         // of errors that no fault has asked for
	Reasoning  string        // delta field: "reasoning" (default), "reasoning_content" or "both"
	Details    bool          // fill usage.prompt_tokens_details (--enable-prompt-tokens-details)
	OldMetrics bool          // gpu_cache_usage_perc in place of kv_cache_usage_perc
	MaxBody    int64         // request body, bytes; 256 MiB when 0

	// Script, when set, answers every POST outside /sim with bytes of its own.
	// It writes to c and must not read from it. Nil keeps the connection for
	// the next request, ErrPass leaves the request to the simulator, any other
	// error closes the connection. req is valid until Script returns.
	Script func(req *Request, c net.Conn) error

	// Observe, when set, sees every request before it is answered. req is
	// valid until Observe returns.
	Observe func(req *Request)
}

// ErrPass is what a Script returns for a request that it does not answer.
var ErrPass = errors.New("request left to the simulator")

func (c Config) withDefaults() Config {
	setDefault(&c.Addr, "127.0.0.1:0")
	if len(c.Models) == 0 {
		c.Models = []string{"sim"}
	}
	setDefault(&c.Root, c.Models[0])
	setDefault(&c.MaxModelLen, 32768)
	setDefault(&c.OutputTokens, 64)
	setDefault(&c.Engines, 1)
	setDefault(&c.KeepAlive, 5*time.Second)
	setDefault(&c.Reasoning, "reasoning")
	setDefault(&c.MaxBody, 256<<20)
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// serves reports whether name is one of the models or adapters; vLLM takes an
// absent or empty name for the first model.
func (c *Config) serves(name string) bool {
	if name == "" {
		return true
	}
	for _, list := range [][]string{c.Models, c.LoRA} {
		for _, have := range list {
			if have == name {
				return true
			}
		}
	}
	return false
}

// answerModel is the `model` of an answer: an adapter's own name, and for
// every served name the first one.
func (c *Config) answerModel(asked string) string {
	for _, name := range c.LoRA {
		if name == asked {
			return name
		}
	}
	return c.Models[0]
}
