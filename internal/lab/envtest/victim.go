package envtest

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/lab/deploy/agenttest"
	"tare/internal/lab/env"
)

// victimVar makes the test binary a controller that will be killed. Its value is the controller's orders.
const victimVar = "TARE_ENVTEST_VICTIM"

var hasMain bool

// Main is the TestMain of a driver's package. It runs the tests or, in a process that the suite started, a controller
// that will be killed.
func Main(m *testing.M, infos []env.Info) {
	hasMain = true
	if text := os.Getenv(victimVar); text != "" {
		os.Unsetenv(victimVar)
		panic(victim(text, infos)) // it is killed before, or it failed
	}
	agenttest.Main(m) // the exit code is kept in m
}

// victimOrder has the task of a victim.
type victimOrder struct {
	Spec     env.Spec
	RunID    string
	Dir      string
	OS, Arch string
	Agent    string
}

// singleAgent is a store of the one agent that a victim gets.
type singleAgent victimOrder

func (g singleAgent) Path(goos, goarch string) (string, error) {
	if goos != g.OS || goarch != g.Arch {
		return "", fmt.Errorf("this test has an agent for %s/%s only, not for %s/%s", g.OS, g.Arch, goos, goarch)
	}
	return g.Agent, nil
}

func victim(text string, infos []env.Info) error {
	var o victimOrder
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return fmt.Errorf("read the victim's orders: %w", err)
	}
	info, ok := env.NewRegistry(infos...).Lookup(o.Spec.Driver)
	if !ok {
		return fmt.Errorf("there is no driver %s in this package", o.Spec.Driver)
	}
	fmt.Println("opening")
	ctx := context.Background()
	e, err := info.Driver.Open(ctx, env.Options{Spec: o.Spec, RunID: o.RunID, Dir: o.Dir, Agents: singleAgent(o),
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	conn, err := deploy.Attach(ctx, e, o.RunID)
	if err != nil {
		return err
	}
	fmt.Println("measuring")
	_, err = conn.Run(ctx, served(endlessWork))
	return fmt.Errorf("the endless trial ended: %w", err)
}

// controllerKilled kills controllers with SIGKILL: while they open their environment, and during a trial.
func (s *suite) controllerKilled(t *testing.T) {
	for _, m := range []struct {
		stage string
		after time.Duration
	}{{"opening", 30 * time.Millisecond}, {"measuring", 700 * time.Millisecond}} {
		t.Run(m.stage, func(t *testing.T) {
			o := s.options(t, s.Spec)
			text, err := json.Marshal(victimOrder{Spec: o.Spec, RunID: o.RunID, Dir: o.Dir, OS: s.OS, Arch: s.Arch,
				Agent: s.agent(t)})
			if err != nil {
				t.Fatal(err)
			}
			d := Doom(t, s.Patience, []string{victimVar + "=" + string(text)},
				func(line string) bool { return line == m.stage })
			time.Sleep(m.after)
			if m.stage == "measuring" && len(s.leaks(t, o)) == 0 {
				t.Error("the search for leaks finds nothing of a running run")
			}
			d.Kill(t)
			s.noLeaks(t, o)
		})
	}
}
