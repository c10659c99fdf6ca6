package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

func whoamiCommand() *cobra.Command {
	var url string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "whoami",
		Short: "Show whose key this is, its plan, and what is left of each limit",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			gateway, _, found, err := loggedIn(url)
			if err != nil {
				return err
			}
			defer gateway.close()
			status, body, err := gateway.ownKey(cmd.Context(), http.MethodGet, found.Key)
			switch {
			case err != nil:
				return err
			case status == http.StatusUnauthorized:
				return fmt.Errorf("the key does not work any more: run mete login --url %s", gateway.base)
			case status != http.StatusOK:
				return refusal(status, body)
			case asJSON:
				_, err = cmd.OutOrStdout().Write(append(body, '\n'))
				return err
			}
			return printOwnKey(cmd.OutOrStdout(), gateway.base, body)
		},
	}
	cmd.Flags().StringVar(&url, "url", "", "`URL` of the gateway (default: the one that was logged in to last)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func logoutCommand() *cobra.Command {
	var url string
	var forget bool
	cmd := &cobra.Command{
		Use:   "logout",
		Short: "Revoke the key that mete login got, and forget it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			gateway, store, found, err := loggedIn(url)
			if err != nil {
				return err
			}
			defer gateway.close()
			if forget {
				fmt.Fprintf(cmd.ErrOrStderr(), "The key of %s is forgotten here, and goes on working.\n", gateway.base)
				return store.drop(gateway.base)
			}
			status, body, err := gateway.ownKey(cmd.Context(), http.MethodDelete, found.Key)
			if err != nil {
				return fmt.Errorf("the key was not revoked: %w", err)
			}
			if status != http.StatusOK && status != http.StatusUnauthorized { // 401: it does not work any more
				return fmt.Errorf("the key was not revoked: %w", refusal(status, body))
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "Logged out of %s. The key is revoked.\n", gateway.base)
			return store.drop(gateway.base)
		},
	}
	cmd.Flags().StringVar(&url, "url", "", "`URL` of the gateway (default: the one that was logged in to last)")
	cmd.Flags().BoolVar(&forget, "forget", false, "do not revoke the key, only forget it")
	return cmd
}

func envCommand() *cobra.Command {
	var url, shell string
	cmd := &cobra.Command{
		Use:     "env",
		Short:   "Print the key as environment variables, for eval",
		Example: "  eval \"$(mete env)\"\n  mete env --shell fish | source",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			store, err := openCredentials()
			if err != nil {
				return err
			}
			base, found, err := store.find(url)
			if err != nil {
				return err
			}
			if !found.Expires.IsZero() && time.Now().After(found.Expires) {
				return fmt.Errorf("the key has expired: run mete login --url %s", base)
			}
			text, err := environment(shell, base, found.Key)
			if err != nil {
				return err
			}
			_, err = io.WriteString(cmd.OutOrStdout(), text)
			return err
		},
	}
	cmd.Flags().StringVar(&url, "url", "", "`URL` of the gateway (default: the one that was logged in to last)")
	cmd.Flags().StringVar(&shell, "shell", "sh", "`SHELL` that reads it: sh, fish or powershell")
	return cmd
}

func loggedIn(url string) (*gatewayClient, *credentials, credential, error) {
	store, err := openCredentials()
	if err != nil {
		return nil, nil, credential{}, err
	}
	base, found, err := store.find(url)
	if err != nil {
		return nil, nil, credential{}, err
	}
	gateway, err := newGatewayClient(base, store)
	return gateway, store, found, err
}

// environment writes the variables that SDKs read, and the service's own.
func environment(shell, base, key string) (string, error) {
	formats := map[string]string{
		"sh":         "export OPENAI_BASE_URL=%s OPENAI_API_KEY=%s %s=%s\n",
		"fish":       "set -gx OPENAI_BASE_URL %s; set -gx OPENAI_API_KEY %s; set -gx %s %s\n",
		"powershell": "$env:OPENAI_BASE_URL=%s; $env:OPENAI_API_KEY=%s; $env:%s=%s\n",
	}
	format, ok := formats[shell]
	if !ok {
		return "", errors.New("--shell must be sh, fish or powershell")
	}
	own := "METE_API_KEY"
	if word := strings.Split(key, "-"); len(word) == 3 && len(word[1]) == 4 {
		own = strings.ToUpper(word[1]) + "_API_KEY"
	}
	quote := shellQuote
	if shell == "powershell" {
		quote = func(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
	}
	return fmt.Sprintf(format, quote(base+"/v1"), quote(key), own, quote(key)), nil
}

// shellQuote leaves words alone that mean themselves in every shell.
func shellQuote(text string) string {
	if strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:") == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

func printOwnKey(out io.Writer, base string, body []byte) error {
	var key struct {
		ID, Name, Owner, Plan string
		Expires               *time.Time
		Limits                []struct {
			Kind             string
			Limit, Remaining int64
			Per, Reset       string
		}
	}
	if err := json.Unmarshal(body, &key); err != nil {
		return fmt.Errorf("%s does not answer like a gateway", base)
	}
	expires := "never"
	if key.Expires != nil {
		expires = shortTime(*key.Expires)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "Gateway\t%s\nOwner\t%s\nPlan\t%s\nKey\t%s (%s)\nExpires\t%s\n", base,
		printable(key.Owner), printable(key.Plan), printable(key.Name), printable(key.ID), expires)
	if len(key.Limits) == 0 {
		fmt.Fprint(table, "Limits\tnone\n")
	}
	for _, l := range key.Limits {
		fmt.Fprintf(table, "%s\t%s\n", title(printable(l.Kind)), leftInWords(l.Limit, l.Remaining, l.Per, l.Reset))
	}
	return table.Flush()
}

func leftInWords(limit, remaining int64, per, reset string) string {
	text := strconv.FormatInt(remaining, 10) + " of " + strconv.FormatInt(limit, 10) + " left"
	if per != "" && per != "0s" {
		text += " in any " + trimZero(printable(per))
	}
	if reset != "" && reset != "0s" {
		text += ", all of it in " + printable(reset)
	}
	return text
}

// trimZero makes "1m" of "1m0s".
func trimZero(d string) string {
	if strings.HasSuffix(d, "m0s") {
		d = strings.TrimSuffix(d, "0s")
	}
	if strings.HasSuffix(d, "h0m") {
		d = strings.TrimSuffix(d, "0m")
	}
	return d
}

func title(word string) string {
	if word == "" {
		return word
	}
	return strings.ToUpper(word[:1]) + word[1:]
}
