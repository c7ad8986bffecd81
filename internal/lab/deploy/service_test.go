package deploy_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"

	"tare/internal/measure/dbserver"
	"tare/internal/measure/workload"
	"tare/internal/record"
	"tare/internal/sys/sql/postgres"
)

// served is a kind whose trials use a real PostgreSQL. Each adds a row to a table that the first trial has made, which
// exists only in the server's memory.
func served() workload.Kind {
	k := kind("t.served", behaviour{})
	k.Params = append(k.Params, workload.Param{Name: "server", Type: workload.Text, Default: "one"},
		workload.Param{Name: "hold", Type: workload.Bool, Default: "no"})
	k.Service = func(p workload.Params) *workload.Service {
		start := startServed
		if p["server"] == "impossible" {
			start = func(context.Context, *workload.Bench) (workload.Running, error) {
				return nil, &record.Failure{Kind: "refused", Message: "there is no such server"}
			}
		}
		return &workload.Service{Key: p["server"], Start: start}
	}
	k.New = func(p workload.Params) (workload.Trial, error) {
		t := behaviour{setup: addRow}
		if p.Bool("hold") {
			t.measure = hold
		}
		return t, nil
	}
	return k
}

// servedPostgres is a private PostgreSQL as a service.
type servedPostgres struct{ dbserver.Server }

func startServed(ctx context.Context, b *workload.Bench) (workload.Running, error) {
	p, err := dbserver.Start(ctx, dbserver.Options{Product: dbserver.PostgreSQL, Dir: filepath.Join(b.Dir, "server"),
		SocketDir: b.Home})
	if err != nil {
		return nil, err
	}
	b.Note("version", p.Version())
	b.Note("service", strconv.Itoa(os.Getpid()))
	b.Note("server", strconv.Itoa(p.Pid()))
	b.Note("socket", p.Endpoint().Address)
	return servedPostgres{p}, nil
}

func (r servedPostgres) Endpoint() string {
	text, err := json.Marshal(r.Server.Endpoint())
	if err != nil {
		panic(err)
	}
	return string(text)
}

func (r servedPostgres) Ended() *record.Failure {
	return &record.Failure{Message: "PostgreSQL has ended", Evidence: r.Log()}
}

// ask runs statements on the service.
func ask(ctx context.Context, b *workload.Bench, text string) (answer string, err error) {
	var at dbserver.Endpoint
	if err := json.Unmarshal([]byte(b.Service.Endpoint), &at); err != nil {
		return "", err
	}
	c, err := postgres.Dial(ctx, postgres.Config{Network: at.Network, Address: at.Address, User: at.User,
		Database: at.Database})
	if err != nil {
		return "", err
	}
	defer c.Close()
	r := postgres.Result{Row: func(columns [][]byte) error {
		answer = string(columns[0])
		return nil
	}}
	return answer, c.Query([]byte(text), &r)
}

func addRow(ctx context.Context, b *workload.Bench) error {
	n, err := ask(ctx, b, "CREATE UNLOGGED TABLE IF NOT EXISTS t (x int); INSERT INTO t VALUES (1); "+
		"SELECT count(*) FROM t")
	b.Note("rows", n)
	b.Note("starts", strconv.FormatInt(b.Service.Starts, 10))
	b.Note("trials", strconv.FormatInt(b.Service.Trials, 10))
	return err
}

// hold reports that it runs and waits for the server.
func hold(ctx context.Context, b *workload.Bench) error {
	if err := os.WriteFile(filepath.Join(b.Dir, "held"), nil, 0o600); err != nil {
		return err
	}
	_, err := ask(ctx, b, "SELECT pg_sleep(3600)")
	return err
}
