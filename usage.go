package main

import (
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"mete/auth"
	"mete/config"
	"mete/limits"
)

// serveUsage answers GET /admin/usage?owner=&key=&model=&since= with the rows of
// the usage record.
func (r *running) serveUsage(w http.ResponseWriter, request *http.Request) {
	query := request.URL.Query()
	filter := limits.UsageFilter{Owner: query.Get("owner"), KeyID: query.Get("key"), Model: query.Get("model")}
	if since := query.Get("since"); since != "" {
		at, err := time.Parse(time.RFC3339, since)
		if err != nil {
			adminError(w, http.StatusBadRequest, "invalid_value", "since must be a time such as 2026-01-15T08:00:00Z")
			return
		}
		filter.Since = at
	}
	rows, err := r.limiter.Usage(request.Context(), filter)
	if err != nil {
		r.log.Warn().Err(err).Msg("usage cannot be read")
		adminError(w, http.StatusServiceUnavailable, "store_unavailable", "the usage record cannot be read right now")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(usageList{Object: "list", Data: append([]limits.UsageRow{}, rows...)})
}

type usageList struct {
	Object string            `json:"object"`
	Data   []limits.UsageRow `json:"data"`
}

func adminError(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	kind := "invalid_request_error"
	if status >= http.StatusInternalServerError {
		kind = "server_error"
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": message, "type": kind, "param": nil, "code": code}})
}

func usageCommand() *cobra.Command {
	flags := &keysFlags{}
	var owner, key, model, since string
	var asCSV bool
	cmd := &cobra.Command{
		Use:   "usage",
		Short: "Show what callers have used, by key, model and hour",
		Long: `Show what callers have used, summed over the time asked for; --json and --csv
give one row per key, model and hour. Tokens are those that were charged.`,
		Example: "  mete usage --since 7d --owner ann --token-file admin-token",
		Args:    cobra.NoArgs,
		RunE: flags.run(func(ctx context.Context, cmd *cobra.Command, client *auth.Client, _ []string) error {
			span, err := config.ParseDuration(since)
			if err != nil {
				return fmt.Errorf("--since: %w", err)
			}
			query := url.Values{"owner": {owner}, "key": {key}, "model": {model}, "since": {time.Now().Add(-span).UTC().Format(time.RFC3339)}}
			var list usageList
			if err := client.Read(ctx, "/admin/usage?"+query.Encode(), &list); err != nil {
				return err
			}
			switch {
			case flags.json:
				return printJSON(cmd.OutOrStdout(), list.Data)
			case asCSV:
				return writeUsageCSV(cmd.OutOrStdout(), list.Data)
			}
			return printUsage(cmd.OutOrStdout(), list.Data)
		}),
	}
	flags.register(cmd)
	cmd.Flags().StringVar(&owner, "owner", "", "of this owner only")
	cmd.Flags().StringVar(&key, "key", "", "of this key only, by its id")
	cmd.Flags().StringVar(&model, "model", "", "of this model only")
	cmd.Flags().StringVar(&since, "since", "24h", "how far back, such as 12h or 7d; at most 35d is kept")
	cmd.Flags().BoolVar(&asCSV, "csv", false, "print CSV")
	cmd.MarkFlagsMutuallyExclusive("csv", "json")
	return cmd
}

// printUsage sums the hours of each key and model.
func printUsage(out io.Writer, rows []limits.UsageRow) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "OWNER\tKEY\tMODEL\tREQUESTS\tREFUSED\tPROMPT TOKENS\tCOMPLETION TOKENS\tMEAN TTFT")
	for _, r := range sumUsage(rows) {
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%s\n", r.Owner, r.KeyID, cmp.Or(r.Model, "-"),
			r.Requests, r.Refused, r.PromptTokens, r.CompletionTokens, meanTTFT(&r))
	}
	return table.Flush()
}

func sumUsage(rows []limits.UsageRow) []limits.UsageRow {
	var sums []limits.UsageRow
	for _, r := range rows {
		i := slices.IndexFunc(sums, func(s limits.UsageRow) bool {
			return s.Owner == r.Owner && s.KeyID == r.KeyID && s.Model == r.Model
		})
		if i < 0 {
			sums = append(sums, r)
			continue
		}
		s := &sums[i]
		s.Requests += r.Requests
		s.Refused += r.Refused
		s.PromptTokens += r.PromptTokens
		s.CompletionTokens += r.CompletionTokens
		s.TTFT += r.TTFT
		s.FirstTokens += r.FirstTokens
	}
	slices.SortFunc(sums, func(a, b limits.UsageRow) int {
		return cmp.Or(cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.KeyID, b.KeyID), cmp.Compare(a.Model, b.Model))
	})
	return sums
}

func meanTTFT(r *limits.UsageRow) string {
	if r.FirstTokens == 0 {
		return "-"
	}
	return (r.TTFT / time.Duration(r.FirstTokens)).Round(100 * time.Microsecond).String()
}

func writeUsageCSV(out io.Writer, rows []limits.UsageRow) error {
	w := csv.NewWriter(out)
	_ = w.Write([]string{"hour", "owner", "key", "model", "requests", "refused", "prompt_tokens", "completion_tokens", "ttft_seconds_sum", "first_tokens"}) // Flush tells
	for _, r := range rows {
		_ = w.Write([]string{
			r.Hour.UTC().Format(time.RFC3339), r.Owner, r.KeyID, r.Model, strconv.FormatInt(r.Requests, 10), strconv.FormatInt(r.Refused, 10),
			strconv.FormatInt(r.PromptTokens, 10), strconv.FormatInt(r.CompletionTokens, 10),
			strconv.FormatFloat(r.TTFT.Seconds(), 'f', 6, 64), strconv.FormatInt(r.FirstTokens, 10),
		})
	}
	w.Flush()
	return w.Error()
}
