package load

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"time"
)

// traceLine is one request of a trace, in the form of the Mooncake traces:
// one JSON object a line.
type traceLine struct {
	Timestamp    float64 `json:"timestamp"` // milliseconds
	InputLength  int     `json:"input_length"`
	OutputLength int     `json:"output_length"`
	HashIDs      []int64 `json:"hash_ids"` // of the prompt's blocks, equal where their text is
}

// traceBlock is how many tokens one of a trace's hash ids stands for.
const traceBlock = 512

// Trace reads a trace and returns its requests with the times at which they are
// sent, the first at 0. Prompts share text where their hash ids are the same.
func Trace(path string, seed uint64, s Shape) ([]*Request, []time.Duration, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = file.Close() }()
	requests, times, err := readTrace(file, seed, s)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return requests, times, nil
}

func readTrace(r io.Reader, seed uint64, s Shape) (requests []*Request, times []time.Duration, err error) {
	decoder := json.NewDecoder(bufio.NewReader(r))
	first := 0.0
	for n := 1; ; n++ {
		var line traceLine
		if err := decoder.Decode(&line); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, nil, fmt.Errorf("request %d: %w", n, err)
		}
		if n == 1 {
			first = line.Timestamp
		}
		at := time.Duration((line.Timestamp - first) * float64(time.Millisecond))
		if line.InputLength < 1 || line.OutputLength < 1 || len(times) > 0 && at < times[len(times)-1] {
			return nil, nil, fmt.Errorf("request %d: want lengths of at least 1 and times in order", n)
		}
		q, err := s.request(turn(line.prompt(seed, n)), line.InputLength, line.OutputLength)
		if err != nil {
			return nil, nil, err
		}
		requests, times = append(requests, q), append(times, at)
	}
	if len(requests) == 0 {
		return nil, nil, errors.New("no requests in it")
	}
	return requests, times, nil
}

// prompt makes up the text of each block from its hash id.
func (l *traceLine) prompt(seed uint64, n int) string {
	var b strings.Builder
	left := l.InputLength
	for _, id := range l.HashIDs {
		if left < traceBlock {
			break
		}
		b.WriteString(words(rand.New(rand.NewPCG(seed, uint64(id)+1<<32)), traceBlock))
		left -= traceBlock
	}
	b.WriteString(words(rand.New(rand.NewPCG(seed, uint64(n))), left))
	return b.String()
}
