package sim

import (
	"encoding/json"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/tidwall/gjson"
)

// kind says which field of a delta a piece belongs to.
type kind byte

const (
	content kind = iota
	reasoning
	toolName
	toolArgs
)

// piece is one token of an answer: what one event carries.
type piece struct {
	kind kind
	text string
	json string // text escaped for a JSON string
}

func newPiece(k kind, text string) piece { return piece{k, text, escape(text)} }

// answer is one choice, complete: the simulator knows the end before it sends
// the beginning.
type answer struct {
	pieces []piece
	finish string
	stop   string // the stop sequence that ended it, if one did
}

// text joins the pieces of one kind.
func (a *answer) text(k kind) string {
	var b strings.Builder
	for _, p := range a.pieces {
		if p.kind == k {
			b.WriteString(p.text)
		}
	}
	return b.String()
}

// answer derives choice i of a call. It depends on the seed, on the prompt's
// bytes and on what bounds the answer; not on the model's name nor on whether
// it is streamed.
func (c *Config) answer(q *call, i int) answer {
	rng := random(c.Seed ^ xxhash.Sum64String(q.identity) ^ mix(uint64(q.seed)+uint64(i)<<32))
	budget := q.maxTokens
	natural := c.naturalLength(&rng)
	if q.ignoreEOS {
		natural = budget
	}
	natural = min(max(natural, q.minTokens), budget+1)
	var pieces []piece
	if q.thinking {
		pieces = prose(nil, &rng, reasoning, max(1, min(natural, budget)/2))
	}
	if q.tool != nil {
		return finish(toolCall(pieces, &rng, q.tool), budget, "tool_calls")
	}
	if q.jsonMode {
		pieces = append(pieces, newPiece(content, `{"answer":"`))
		pieces = append(prose(pieces, &rng, content, natural), newPiece(content, `"}`))
		return finish(withoutNewlines(pieces), budget, "stop")
	}
	pieces = prose(pieces, &rng, content, max(natural, 1)-len(pieces))
	return cutAtStop(finish(pieces, budget, "stop"), q.stops)
}

func (c *Config) naturalLength(rng *random) int {
	spread := c.OutputSpread * rng.unit()
	return max(1, int(float64(c.OutputTokens)*(1+spread)))
}

// finish ends the answer at its budget; an answer that had more to say ends
// with "length".
func finish(pieces []piece, budget int, reason string) answer {
	if len(pieces) > budget || len(pieces) == budget && reason == "stop" {
		return answer{pieces: pieces[:budget], finish: "length"}
	}
	return answer{pieces: pieces, finish: reason}
}

// cutAtStop ends the content before the earliest stop sequence.
func cutAtStop(a answer, stops []string) answer {
	if len(stops) == 0 {
		return a
	}
	text, at, which := a.text(content), -1, ""
	for _, stop := range stops {
		if i := strings.Index(text, stop); stop != "" && i >= 0 && (at < 0 || i < at) {
			at, which = i, stop
		}
	}
	if at < 0 {
		return a
	}
	return answer{pieces: keepContent(a.pieces, at), finish: "stop", stop: which}
}

// keepContent keeps the first n bytes of the content.
func keepContent(pieces []piece, n int) []piece {
	for i, p := range pieces {
		if p.kind != content {
			continue
		}
		if len(p.text) > n {
			if n == 0 {
				return pieces[:i]
			}
			return append(pieces[:i], newPiece(content, p.text[:n]))
		}
		n -= len(p.text)
	}
	return pieces
}

// withoutNewlines makes prose fit into a JSON string.
func withoutNewlines(pieces []piece) []piece {
	for i, p := range pieces {
		if p.text == "\n" {
			pieces[i] = newPiece(p.kind, " —")
		}
	}
	return pieces
}

// toolCall appends a call of fn whose arguments fit its parameter schema: the
// name in one piece, the arguments in pieces of a few bytes.
func toolCall(pieces []piece, rng *random, fn *function) []piece {
	pieces = append(pieces, newPiece(toolName, fn.name))
	args := []byte{'{'}
	fn.properties.ForEach(func(name, schema gjson.Result) bool {
		if len(args) > 1 {
			args = append(args, ", "...)
		}
		args = append(args, name.Raw...)
		args = append(args, ": "...)
		args = append(args, exampleOf(schema, rng)...)
		return true
	})
	for text := string(append(args, '}')); text != ""; {
		n := min(tokenEnd(text, 0), len(text))
		pieces = append(pieces, newPiece(toolArgs, text[:n]))
		text = text[n:]
	}
	return pieces
}

// exampleOf makes up a value of the type that the schema asks for.
func exampleOf(schema gjson.Result, rng *random) string {
	if first := schema.Get("enum.0"); first.Exists() {
		return first.Raw
	}
	switch schema.Get("type").String() {
	case "integer", "number":
		return string(rune('1' + rng.below(9)))
	case "boolean":
		return "true"
	case "array":
		return "[]"
	case "object":
		return "{}"
	}
	return `"` + vocabulary[rng.below(len(vocabulary))] + `"`
}

// escape returns text as it stands between the quotes of a JSON string, with
// multi-byte characters left as they are.
func escape(text string) string {
	plain := true
	for i := 0; i < len(text); i++ {
		if b := text[i]; b < 0x20 || b == '"' || b == '\\' || b == 0x7f {
			plain = false
			break
		}
	}
	if plain {
		return text
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(text) // a string always encodes
	quoted := strings.TrimSuffix(b.String(), "\n")
	return quoted[1 : len(quoted)-1]
}
