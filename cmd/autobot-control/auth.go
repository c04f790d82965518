package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"github.com/autobot-fleet/autobot/cmd/autobot-control/internal/dev"
	"github.com/autobot-fleet/autobot/control/auth"
	"github.com/autobot-fleet/autobot/internal/cli"
)

func newAuthCommand(env *environment) *cobra.Command {
	return cli.Group("auth", "Credentials of the API", newAuthToken(env))
}

func newAuthToken(env *environment) *cobra.Command {
	role, ttl, username := string(auth.RoleUser), 24*time.Hour, ""
	c := &cobra.Command{
		Use:   "token",
		Short: "Print a token (JWT) for the API, signed with this machine's secret",
		Long: "Print a token for the API: send it as \"Authorization: Bearer TOKEN\", or name a file with\n" +
			"it by --token-file. Role user may read, admin may do everything. It is signed with the\n" +
			"secret of the control plane on this machine, and nothing is stored: a token is good\n" +
			"until it expires.",
		Args: cli.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			path, err := secretFile(env)
			if err != nil {
				return err
			}
			secret, err := auth.LoadSecret(path)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return fmt.Errorf("%w (the control plane makes it at its first start: run this on its machine, as its user)", err)
			case errors.Is(err, fs.ErrPermission):
				return fmt.Errorf("%w (run this as the user of the control plane)", err)
			case err != nil:
				return err
			}
			tokens, err := auth.NewTokens(secret)
			if err != nil {
				return err
			}
			token, err := tokens.Mint(auth.Role(role), ttl, username)
			if err != nil {
				return cli.Usagef("%v", err)
			}
			v := map[string]any{"token": token, "role": role, "expires_at": time.Now().Add(ttl).UTC().Format(time.RFC3339)}
			return env.Print(v, func(w io.Writer) error {
				_, err := fmt.Fprintln(w, token)
				return err
			})
		},
	}
	flags := c.Flags()
	flags.StringVar(&role, "role", role, "user (may read) or admin (may do everything)")
	flags.DurationVar(&ttl, "ttl", ttl, "how long it is good, 1s to 366 days")
	flags.StringVar(&username, "username", "", "who it is for, as logs show it (default: the role)")
	_ = c.RegisterFlagCompletionFunc("role", cobra.FixedCompletions([]string{"user", "admin"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// secretFile is the file with the secret that signs tokens: of the control
// plane that is configured here, else of a running dev.
func secretFile(env *environment) (string, error) {
	cfg, explicit, err := localConfig(env)
	if err != nil {
		return "", err
	}
	if !explicit && !(exists(cfg.Auth.JWTSecretFile) && answers(cfg.HTTP.Listen)) {
		if r := dev.Find(); r != nil {
			return r.JWTSecretFile, nil
		}
	}
	return cfg.Auth.JWTSecretFile, nil
}
