//go:build unix && !linux

package restore

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"tare/internal/record"
)

// wayInto checks that everybody can pass through all directories above dir: there are no capabilities here.
func wayInto(dir string) ([]uintptr, error) {
	for d := dir; ; d = filepath.Dir(d) {
		st, err := os.Stat(d)
		if err != nil {
			return nil, err
		}
		if st.Mode().Perm()&1 == 0 {
			return nil, &record.Failure{Kind: "refused",
				Message: fmt.Sprintf("restore: PostgreSQL's user cannot reach %s, because it has no access to %s: "+
					"run the agent as a user other than root", dir, d)}
		}
		if d == filepath.Dir(d) {
			return nil, nil
		}
	}
}

func keepReach(*syscall.SysProcAttr, []uintptr) {}
