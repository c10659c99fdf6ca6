package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"mete/auth"
)

// keysFlags are what the commands take that go through the admin listener.
type keysFlags struct {
	admin     string
	tokenFile string
	json      bool
}

// register adds the flags to a command and those below it.
func (f *keysFlags) register(cmd *cobra.Command) {
	cmd.PersistentFlags().StringVar(&f.admin, "admin", "http://127.0.0.1:9090", "address of the admin listener")
	cmd.PersistentFlags().StringVar(&f.tokenFile, "token-file", "", "file with the admin token (required)")
	cmd.PersistentFlags().BoolVar(&f.json, "json", false, "print JSON")
	_ = cmd.MarkPersistentFlagRequired("token-file") // fails only for a flag that does not exist
}

// keysCommand is `mete keys`: key administration through the admin listener of
// a running gateway, so that it is the same for Redis and the embedded store.
func keysCommand() *cobra.Command {
	flags := &keysFlags{}
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Create, list, revoke and rotate API keys",
		Long: `Create, list, revoke and rotate API keys, through the admin listener of a
running gateway. It asks for the token in the file that the gateway's
configuration names as keystore.admin_token_file.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	flags.register(cmd)
	cmd.AddCommand(keysCreateCommand(flags), keysListCommand(flags), keysRevokeCommand(flags), keysRotateCommand(flags))
	return cmd
}

func keysCreateCommand(flags *keysFlags) *cobra.Command {
	var name, owner, plan, expires string
	cmd := &cobra.Command{
		Use:     "create --plan PLAN --name NAME",
		Short:   "Create a key and print it, this once",
		Example: "  mete keys create --plan free --name laptop --owner ann@example.com --expires 90d --token-file admin-token",
		Args:    cobra.NoArgs,
		RunE: flags.run(func(ctx context.Context, cmd *cobra.Command, client *auth.Client, _ []string) error {
			made, err := client.Create(ctx, name, owner, plan, expires)
			if err != nil {
				return err
			}
			return flags.printIssued(cmd, made)
		}),
	}
	cmd.Flags().StringVar(&name, "name", "", "what the key is for (required)")
	cmd.Flags().StringVar(&plan, "plan", "", "plan of the configuration (required)")
	cmd.Flags().StringVar(&owner, "owner", "", "whose key it is; limits are per owner (default: the name)")
	cmd.Flags().StringVar(&expires, "expires", "", `lifetime, such as "90d" or "12h" (default: for ever)`)
	_ = cmd.MarkFlagRequired("name")
	_ = cmd.MarkFlagRequired("plan")
	return cmd
}

func keysListCommand(flags *keysFlags) *cobra.Command {
	var owner string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List keys, dead ones of the last 90 days included",
		Args:  cobra.NoArgs,
		RunE: flags.run(func(ctx context.Context, cmd *cobra.Command, client *auth.Client, _ []string) error {
			var keys []auth.Key
			for key, err := range client.Keys(ctx, owner) {
				if err != nil {
					return err
				}
				keys = append(keys, key)
			}
			slices.SortFunc(keys, func(a, b auth.Key) int {
				return cmp.Or(cmp.Compare(a.Owner, b.Owner), a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
			})
			return flags.printKeys(cmd.OutOrStdout(), keys)
		}),
	}
	cmd.Flags().StringVar(&owner, "owner", "", "list this owner's keys only")
	return cmd
}

func keysRevokeCommand(flags *keysFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke ID",
		Short: "Revoke a key, from its next request on",
		Args:  cobra.ExactArgs(1),
		RunE: flags.run(func(ctx context.Context, cmd *cobra.Command, client *auth.Client, args []string) error {
			key, err := client.Revoke(ctx, args[0])
			if err != nil {
				return err
			}
			if flags.json {
				return printJSON(cmd.OutOrStdout(), key)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "revoked %s (%s of %s) at %s\n", key.ID, key.Name, key.Owner, shortTime(key.Revoked))
			return err
		}),
	}
}

func keysRotateCommand(flags *keysFlags) *cobra.Command {
	var overlap string
	cmd := &cobra.Command{
		Use:   "rotate ID",
		Short: "Create a key that follows another, which soon expires",
		Args:  cobra.ExactArgs(1),
		RunE: flags.run(func(ctx context.Context, cmd *cobra.Command, client *auth.Client, args []string) error {
			made, err := client.Rotate(ctx, args[0], overlap)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "The old key %s works for %s more at most.\n", args[0], overlap)
			return flags.printIssued(cmd, made)
		}),
	}
	cmd.Flags().StringVar(&overlap, "overlap", "24h", "how long the old key goes on working")
	return cmd
}

// run hands a client to what a command does.
func (f *keysFlags) run(do func(context.Context, *cobra.Command, *auth.Client, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		token, err := auth.ReadToken(f.tokenFile)
		if err != nil {
			return err
		}
		client, err := auth.NewClient(f.admin, token)
		if err != nil {
			return err
		}
		defer client.Close()
		return do(cmd.Context(), cmd, client, args)
	}
}

// printIssued puts the key alone on standard output, for KEY=$(mete keys create ...).
func (f *keysFlags) printIssued(cmd *cobra.Command, made auth.Issued) error {
	if f.json {
		return printJSON(cmd.OutOrStdout(), made)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "Key %s (%s of %s), plan %s, expires: %s. It is shown this once; store it now.\n",
		made.ID, made.Name, made.Owner, made.Plan, orNever(made.Expires))
	_, err := fmt.Fprintln(cmd.OutOrStdout(), made.Plaintext)
	return err
}

func (f *keysFlags) printKeys(out io.Writer, keys []auth.Key) error {
	if f.json {
		return printJSON(out, append([]auth.Key{}, keys...)) // [], not null
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tNAME\tOWNER\tPLAN\tKEY\tSTATE\tCREATED\tEXPIRES\tLAST USED")
	for _, k := range keys {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t...%s\t%s\t%s\t%s\t%s\n", k.ID, k.Name, k.Owner, k.Plan, k.Last4,
			k.State, shortTime(k.Created), orNever(k.Expires), orNever(k.Used))
	}
	return table.Flush()
}

func printJSON(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

func orNever(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return shortTime(t)
}

func shortTime(t time.Time) string { return t.Local().Format("2006-01-02 15:04") }
