package load

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
)

// Shape is what all requests of a run have in common.
type Shape struct {
	Path      string // below the target's prefix; /chat/completions when empty
	Model     string
	Whole     bool // not streamed
	NoUsage   bool // do not ask a stream for its usage
	IgnoreEOS bool // answer with exactly as many tokens as asked for
	Extra     map[string]any
}

// Lengths say how long prompts and answers are, in tokens: uniformly random
// around a mean, by up to a share of it (0 to 1).
type Lengths struct {
	Prompt, Answer int
	Spread         float64
	Shared         int // tokens at the beginning that all prompts share
}

// Synthetic makes n requests from a seed. Apart from what is shared, no two
// begin alike, so that a prefix cache cannot help. Tokens are estimated: a
// common word is one.
func Synthetic(seed uint64, n int, l Lengths, s Shape) ([]*Request, error) {
	random := rand.New(rand.NewPCG(seed, 1))
	shared := words(rand.New(rand.NewPCG(seed, 2)), l.Shared)
	requests := make([]*Request, n)
	for i := range requests {
		prompt := l.spread(random, l.Prompt)
		text := shared + fmt.Sprintf("%d ", random.Uint32()) + words(random, prompt-l.Shared-4)
		var err error
		if requests[i], err = s.request(turn(text), prompt, l.spread(random, l.Answer)); err != nil {
			return nil, err
		}
	}
	return requests, nil
}

func (l Lengths) spread(random *rand.Rand, mean int) int {
	width := int(float64(mean) * l.Spread)
	if width < 1 {
		return mean
	}
	return max(1, mean-width+random.IntN(2*width+1))
}

// common are short words that usual vocabularies have as one token.
var common = strings.Fields(`the of and to in is that it for as with was on are by this be at from or an
	one all can has more when there if will each about how up out them then many some so these would
	other into time two like way people than first water been call who its now find long down day did
	come made may part over new sound take only little work know place year live back give most very`)

func words(random *rand.Rand, n int) string {
	var b strings.Builder
	for range n {
		b.WriteString(common[random.IntN(len(common))])
		b.WriteByte(' ')
	}
	return b.String()
}

// message is one turn of a chat.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

func turn(text string) []message { return []message{{"user", text}} }

// request makes one request. Of a chat the text completion endpoint gets the
// last message.
func (s *Shape) request(messages []message, promptTokens, answerTokens int) (*Request, error) {
	body := map[string]any{"model": s.Model, "max_tokens": answerTokens}
	if strings.HasSuffix(s.Path, "/completions") && !strings.HasSuffix(s.Path, "/chat/completions") {
		body["prompt"] = messages[len(messages)-1].Content
	} else {
		body["messages"] = messages
	}
	if !s.Whole {
		body["stream"] = true
		if !s.NoUsage {
			body["stream_options"] = map[string]bool{"include_usage": true}
		}
	}
	if s.IgnoreEOS {
		body["ignore_eos"] = true
	}
	for name, value := range s.Extra {
		body[name] = value
	}
	b, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("request body: %w", err)
	}
	path := s.Path
	if path == "" {
		path = "/chat/completions"
	}
	return &Request{Path: path, Body: b, PromptTokens: promptTokens}, nil
}

// conversation is one entry of a ShareGPT-style file.
type conversation struct {
	Conversations []struct{ From, Value string }
}

// Conversations makes requests from a ShareGPT-style file, a JSON array of
// {"conversations": [{"from": "human", "value": "..."}, {"from": "gpt", ...}]}:
// the first message is the prompt, the length of its answer the number of tokens
// asked for, unless answer is above 0. At most n are read; 0 reads all.
func Conversations(path string, n, answer int, s Shape) ([]*Request, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var entries []conversation
	if err := json.Unmarshal(b, &entries); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var requests []*Request
	for _, e := range entries {
		if len(e.Conversations) < 2 || n > 0 && len(requests) == n {
			continue
		}
		prompt, reply := e.Conversations[0].Value, e.Conversations[1].Value
		tokens := answer
		if tokens == 0 {
			tokens = estimate(reply)
		}
		q, err := s.request(turn(prompt), estimate(prompt), tokens)
		if err != nil {
			return nil, err
		}
		requests = append(requests, q)
	}
	if len(requests) == 0 {
		return nil, fmt.Errorf("%s: no conversation of at least two messages", path)
	}
	return requests, nil
}

// estimate counts four bytes for a token, as English text has them.
func estimate(text string) int { return max(1, len(text)/4) }
