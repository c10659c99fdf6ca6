package sim

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"

	"github.com/cespare/xxhash/v2"
)

// pool serves the endpoints whose answer needs the prompt alone: embeddings,
// classification, scores, reranking.
func (r *Replica) pool(x *exchange) error {
	q, err := r.prepare(x)
	if q == nil {
		return err
	}
	if x.id == "" {
		x.id = r.newID()
	}
	inputs := make([]answer, len(q.prompts))
	q.n = 1
	t, admitted := r.admit(x, q, inputs)
	if !admitted {
		r.meters.refused.Add(1)
		return x.fail(queueFull(r.cfg.MaxQueued))
	}
	defer t.release()
	if err = t.waitDone(); err == nil {
		if err = x.reply(http.StatusOK, jsonType, x.pooled(q)); err == nil {
			x.complete = true
		}
	}
	r.meters.settle(x, nil, t, err)
	if errors.Is(err, errClosing) {
		return errors.Join(err, x.fail(statusError(http.StatusServiceUnavailable, "The server is shutting down.")))
	}
	return err
}

func (x *exchange) pooled(q *call) []byte {
	total := sum(q.counts)
	switch q.path {
	case "/score", "/v1/score":
		return x.scores(q, total)
	case "/rerank", "/v1/rerank", "/v2/rerank":
		return x.rerank(q, total)
	case "/classify":
		return x.list("classify-", q, total, func(b []byte, i int) []byte {
			s := x.score(q.prompts[i])
			return fmt.Appendf(b, `{"index":%d,"label":"LABEL_%d","probs":[%s,%s],"num_classes":2}`, i, int(s*2), decimal(1-s), decimal(s))
		})
	}
	return x.list("embd-", q, total, func(b []byte, i int) []byte {
		b = fmt.Appendf(b, `{"index":%d,"object":"embedding","embedding":`, i)
		return append(appendVector(b, x.cfg.Vector(q.prompts[i], q.dims), q.base64), '}')
	})
}

func (x *exchange) list(prefix string, q *call, total int, item func([]byte, int) []byte) []byte {
	b := fmt.Appendf(nil, `{"id":"%s%s","object":"list","created":%d,"model":"%s","data":[`, prefix, x.id, x.created, escape(x.cfg.answerModel(q.model)))
	for i := range q.prompts {
		if i > 0 {
			b = append(b, ',')
		}
		b = item(b, i)
	}
	b = appendUsage(append(b, `],"usage":`...), usage{prompt: total}, false)
	return append(b, '}')
}

func (x *exchange) scores(q *call, total int) []byte {
	return x.list("score-", q, total, func(b []byte, i int) []byte {
		return fmt.Appendf(b, `{"index":%d,"object":"score","score":%s}`, i, decimal(x.score(q.prompts[i])))
	})
}

func (x *exchange) rerank(q *call, total int) []byte {
	order := make([]int, len(q.prompts))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(x.score(q.prompts[b]), x.score(q.prompts[a])) })
	if top := int(q.body.Get("top_n").Int()); top > 0 {
		order = order[:min(top, len(order))]
	}
	documents := q.body.Get("documents").Array()
	b := fmt.Appendf(nil, `{"id":"rerank-%s","model":"%s","usage":{"prompt_tokens":%d,"total_tokens":%d},"results":[`, x.id, escape(x.cfg.answerModel(q.model)), total, total)
	for n, i := range order {
		if n > 0 {
			b = append(b, ',')
		}
		text := ""
		if i < len(documents) {
			text = documentText(documents[i])
		}
		b = fmt.Appendf(b, `{"index":%d,"document":{"text":"%s","multi_modal":null},"relevance_score":%s}`, i, escape(text), decimal(x.score(q.prompts[i])))
	}
	return append(b, "]}"...)
}

// score is a number in [0, 1) that depends on the seed and the text.
func (x *exchange) score(text string) float64 {
	rng := random(x.cfg.Seed ^ xxhash.Sum64String(text))
	return (rng.unit() + 1) / 2
}

const defaultDims = 384

// Vector returns the embedding of text: of unit length, the same for the same
// seed and text. dims is 384 when 0.
func (c *Config) Vector(text string, dims int) []float32 {
	if dims <= 0 || dims > 1<<16 {
		dims = defaultDims
	}
	rng, norm := random(c.Seed^xxhash.Sum64String(text)), 0.0
	v := make([]float32, dims)
	for i := range v {
		v[i] = float32(rng.unit())
		norm += float64(v[i]) * float64(v[i])
	}
	for i := range v {
		v[i] /= float32(math.Sqrt(norm))
	}
	return v
}

func appendVector(b []byte, v []float32, asBase64 bool) []byte {
	if asBase64 {
		raw := make([]byte, 0, 4*len(v))
		for _, f := range v {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(f))
		}
		return append(base64.StdEncoding.AppendEncode(append(b, '"'), raw), '"')
	}
	b = append(b, '[')
	for i, f := range v {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendFloat(b, float64(f), 'g', -1, 32)
	}
	return append(b, ']')
}

func decimal(f float64) string { return strconv.FormatFloat(f, 'f', 6, 64) }

// tokenize serves /tokenize; /detokenize has no inverse to offer, because a
// token's number is a hash.
func (r *Replica) tokenize(x *exchange) error {
	if x.req.Path == "/detokenize" {
		return x.fail(statusError(http.StatusNotImplemented, "The simulator cannot turn token ids back into text."))
	}
	q, err := r.prepare(x)
	if q == nil {
		return err
	}
	ids := tokenIDs(q.prompts[0])
	b := fmt.Appendf(nil, `{"count":%d,"max_model_len":%d,"tokens":[`, len(ids), r.cfg.MaxModelLen)
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(id), 10)
	}
	return x.reply(http.StatusOK, jsonType, append(b, `],"token_strs":null}`...))
}
