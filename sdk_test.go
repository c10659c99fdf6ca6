package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// sdkClient is the official Go SDK, with only base URL and key changed.
func sdkClient(tr *trial, options ...option.RequestOption) openai.Client {
	return openai.NewClient(append([]option.RequestOption{
		option.WithBaseURL(tr.base), option.WithAPIKey(tr.key), option.WithHTTPClient(tr.client),
	}, options...)...)
}

func ask(content string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model:    "mete",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(content)},
	}
}

// withFault makes the simulated replica fail.
func withFault(fault string) option.RequestOption { return option.WithJSONSet("sim_fault", fault) }

func TestGoSDK(t *testing.T) {
	tr := startTrial(t)
	client := sdkClient(tr)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	t.Run("asks", func(t *testing.T) {
		answer, err := client.Chat.Completions.New(ctx, ask("hello"))
		if err != nil || answer.Choices[0].Message.Content == "" || answer.Usage.CompletionTokens == 0 {
			t.Errorf("%+v, %v", answer, err)
		}
	})
	t.Run("streams", func(t *testing.T) {
		stream := client.Chat.Completions.NewStreaming(ctx, ask("hello"))
		var whole openai.ChatCompletionAccumulator
		for stream.Next() {
			whole.AddChunk(stream.Current())
		}
		if err := stream.Err(); err != nil || whole.Choices[0].Message.Content == "" {
			t.Errorf("%+v, %v", whole, err)
		}
	})
	t.Run("calls tools", func(t *testing.T) {
		params := ask("use the tool")
		params.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
			Name: "weather", Parameters: openai.FunctionParameters{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}},
		})}
		answer, err := client.Chat.Completions.New(ctx, params)
		if err != nil || len(answer.Choices[0].Message.ToolCalls) == 0 || answer.Choices[0].Message.ToolCalls[0].Function.Name != "weather" {
			t.Errorf("%+v, %v", answer, err)
		}
	})
	t.Run("lists models", func(t *testing.T) {
		page, err := client.Models.List(ctx)
		if err != nil || len(page.Data) != 2 || page.Data[0].ID != "mete" || page.Data[0].OwnedBy != "mete" {
			t.Errorf("%+v, %v", page, err)
		}
	})
	t.Run("embeds", func(t *testing.T) {
		answer, err := client.Embeddings.New(ctx, openai.EmbeddingNewParams{
			Model: "mete", Input: openai.EmbeddingNewParamsInputUnion{OfString: openai.String("hello")},
		})
		if err != nil || len(answer.Data[0].Embedding) == 0 {
			t.Errorf("%v", err)
		}
	})
	t.Run("sees a stream that died as an error", func(t *testing.T) {
		for _, fault := range []string{"cut; at=700", "cut; at=700; how=rst"} {
			stream := client.Chat.Completions.NewStreaming(ctx, ask("hello"), withFault(fault))
			for stream.Next() {
			}
			if stream.Err() == nil {
				t.Errorf("%s: the stream looks complete", fault)
			}
		}
	})
}

func TestGoSDKGetsTypedErrors(t *testing.T) {
	tr := startTrial(t)
	client := sdkClient(tr, option.WithMaxRetries(0))
	ctx := context.Background()
	for name, c := range map[string]struct {
		params  openai.ChatCompletionNewParams
		options []option.RequestOption
		status  int
		code    string
	}{
		"an unknown model":    {openai.ChatCompletionNewParams{Model: "nope", Messages: ask("x").Messages}, nil, 404, "model_not_found"},
		"a bad key":           {ask("x"), []option.RequestOption{option.WithAPIKey("sk-other")}, 401, "invalid_api_key"},
		"a bad temperature":   {ask("x"), []option.RequestOption{option.WithJSONSet("temperature", 3)}, 400, "invalid_value"},
		"a flat error":        {ask("x"), []option.RequestOption{withFault("status; code=400; shape=flat; message=too long")}, 400, "replica_refused"},
		"a bare string error": {ask("x"), []option.RequestOption{withFault("status; code=400; shape=bare; message=too long")}, 400, "replica_refused"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := client.Chat.Completions.New(ctx, c.params, c.options...)
			var typed *openai.Error
			if !errors.As(err, &typed) || typed.StatusCode != c.status || typed.Code != c.code || typed.Message == "" {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestGoSDKRetriesAsItShould counts what reaches the gateway, by its metrics.
func TestGoSDKRetriesAsItShould(t *testing.T) {
	tr := startTrial(t)
	client := sdkClient(tr)
	for name, c := range map[string]struct {
		fault  string
		status string
		want   int
	}{
		"a full queue is tried again":                 {"queue_full", "503", 3},
		"a request that is wrong is not":              {"status; code=400", "400", 1},
		"one that two replicas have failed on is not": {"status; code=500", "500", 1},
	} {
		t.Run(name, func(t *testing.T) {
			before := tr.requests(c.status)
			_, err := client.Chat.Completions.New(context.Background(), ask("x"), withFault(c.fault), option.WithMaxRetries(2))
			if got := tr.requests(c.status) - before; err == nil || got != c.want {
				t.Errorf("%d requests, %v", got, err)
			}
		})
	}
}

// requests reads a counter from the metrics.
func (tr *trial) requests(status string) (n int) {
	_, text := tr.get(tr.admin+"/metrics", "")
	_, rest, ok := strings.Cut(text, fmt.Sprintf(`mete_requests_total{model="mete",status="%s"} `, status))
	if !ok {
		return 0
	}
	if _, err := fmt.Sscan(rest, &n); err != nil {
		tr.Fatal(err)
	}
	return n
}

var otherSDKs = flag.Bool("sdks", false, "also run the Python and Node SDKs; make test-sdk installs them")

// TestOtherSDKs runs the official Python and Node SDKs against try-it mode.
func TestOtherSDKs(t *testing.T) {
	if !*otherSDKs {
		t.Skip("make test-sdk runs this")
	}
	tr := startTrial(t)
	for name, command := range map[string][]string{
		"python": {".cache/sdk/venv/bin/python", "testdata/sdk/check.py"},
		"node":   {"node", ".cache/sdk/check.mjs"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, command[0], command[1:]...)
			cmd.Env = append(os.Environ(), "OPENAI_BASE_URL="+tr.base, "OPENAI_API_KEY="+tr.key)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			t.Logf("%s", out)
		})
	}
}
