//go:build !unix

package restore

import (
	"os"

	"tare/internal/record"
	"tare/internal/sys/proc"
)

// account is the user that runs the server.
type account struct{ name string }

// serverAccount refuses: tare reaches the server by a Unix socket only.
func serverAccount(string) (account, error) {
	return account{}, &record.Failure{Kind: "refused",
		Message: "restore: load=postgresql runs on Unix only; use load=none"}
}

func (a account) give(string) error { return nil }

func (a account) giveIn(*os.Root, string) error { return nil }

func (a *account) reachAlso(string) error { return nil }

func (a account) become(*proc.Cmd) {}
