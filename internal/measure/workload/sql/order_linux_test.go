package sql_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tare/internal/measure/workload/sql"
	"tare/internal/plan"
	"tare/internal/run/supply"
	"tare/internal/sys/sql/log"
)

// TestOrderOfTransactions has sessions of PostgreSQL write at the same time, and replays its csvlog with fewer lanes
// than there are sessions. The transactions begin in the order in which they first wrote, by the log of the replay.
func TestOrderOfTransactions(t *testing.T) {
	sql.Each(t, func(t *testing.T, server map[string]string) {
		if server["server"] != "postgresql" {
			log := filepath.Join(t.TempDir(), "general.log")
			if err := os.WriteFile(log, []byte("261121  0:05:31\t    8 Query\tSELECT 1\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := supply.New(t.TempDir()).Of(t.Context(), &plan.Workload{Kind: "sql.replay",
				Params: map[string]string{"server": server["server"], "log": log, "order": "transactions"}})
			if err == nil || !strings.Contains(err.Error(), "the log tells no ids of transactions") {
				t.Errorf("a general log: %v", err)
			}
			return
		}
		r := recording(t, server)
		c := r.connect(t, "shop")
		c.Word(t, "CREATE TABLE ordered (who INT, n INT)")
		log := r.logged(t, c)
		begin := size(t, log)
		var clients []*sql.Client
		for range 5 {
			clients = append(clients, r.connect(t, "shop"))
		}
		var want []string
		for n := range 40 { // two begin, and the second writes first
			a, b := n%len(clients), (n+1+n/7%4)%len(clients)
			for _, who := range []int{a, b} {
				clients[who].Word(t, fmt.Sprintf("BEGIN /* %d-%d */", n, who))
			}
			for _, who := range []int{b, a} {
				clients[who].Word(t, fmt.Sprintf("INSERT INTO ordered VALUES (%d, %d)", who, n))
				want = append(want, fmt.Sprintf("BEGIN /* %d-%d */", n, who))
			}
			for _, who := range []int{a, b} {
				clients[who].Word(t, "COMMIT", "SELECT 'between'")
			}
		}
		for _, c := range clients {
			c.Quit(t)
		}
		r.logEnds(t, c, log, "the end of the transactions")
		recorded := cutFrom(t, log, begin)
		more := map[string]string{"log": recorded, "order": "transactions", "lanes": "2", "whole": "yes",
			"writes": "yes", "warm": "no"}
		for _, keeps := range []string{"kept", "as-recorded"} {
			r.logged(t, c)
			begin = size(t, log)
			more["sessions"] = keeps
			b, err := r.replay(t, 1, more)
			if err != nil {
				t.Fatal(err)
			}
			r.logEnds(t, c, log, "the end of the replay, "+keeps)
			if got := begins(t, cutFrom(t, log, begin)); !slices.Equal(got, want) {
				t.Errorf("%s: the transactions begin as %v, want %v", keeps, got, want)
			}
			if lanes, _ := strconv.Atoi(b.State["lanes"]); lanes < 3 || lanes > len(clients)+1 ||
				b.State["turn_wait_share"] == "" || b.State["errors"] != "none" {
				t.Errorf("%s: %v", keeps, b.State)
			}
		}
		if n := c.Word(t, "SELECT count(*) FROM ordered"); n != fmt.Sprint(3*len(want)) {
			t.Errorf("%s rows were written", n)
		}
		c.Quit(t)
	})
}

func size(t *testing.T, name string) int64 {
	t.Helper()
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// cutFrom copies what is in a file behind an offset.
func cutFrom(t *testing.T, name string, offset int64) string {
	t.Helper()
	text, err := os.ReadFile(name)
	to := filepath.Join(t.TempDir(), "cut.csv")
	if err == nil {
		err = os.WriteFile(to, text[offset:], 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// begins lists the statements that begin a transaction, in the order of a log.
func begins(t *testing.T, name string) (all []string) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in, err := log.Open(f, log.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var e log.Event
	for err = in.Next(&e); err == nil; err = in.Next(&e) {
		if strings.HasPrefix(string(e.Text), "BEGIN /*") {
			all = append(all, string(e.Text))
		}
	}
	if err != io.EOF {
		t.Fatal(err)
	}
	return all
}
