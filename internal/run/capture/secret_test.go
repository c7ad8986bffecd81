package capture

import (
	"os"
	"path/filepath"
	"testing"

	"tare/internal/measure/dbserver"
)

func TestSecrets(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	first := write("pass word", "se cret \r\nanother\n")
	option := write("my.cnf", "[mysqld]\npassword=no\n[client]\nuser=x\n# password=no\npassword = \"a #b\\\\\"\n"+
		"[mysql]\npassword=no\n")
	pass := write("pgpass", "localhost:5433:*:u:no\n10.0.0.5:5432:postgres:u:far\nlocalhost:5432:*:u:near\n")
	env := map[string]string{}
	getenv := func(name string) string { return env[name] }
	for _, c := range []struct {
		product          dbserver.Product
		address          string
		file, option     string
		variable, value  string
		want, wantSource string
	}{
		{product: dbserver.MySQL, want: "", wantSource: ""},
		{product: dbserver.MySQL, file: first, variable: "MYSQL_PWD", value: "no", want: "se cret ",
			wantSource: "password file"},
		{product: dbserver.MariaDB, option: option, want: `a #b\`, wantSource: "option file"},
		{product: dbserver.MariaDB, variable: "MYSQL_PWD", value: "v", want: "v", wantSource: "variable"},
		{product: dbserver.PostgreSQL, variable: "MYSQL_PWD", value: "no", want: "", wantSource: ""},
		{product: dbserver.PostgreSQL, variable: "PGPASSWORD", value: "v", want: "v", wantSource: "variable"},
		{product: dbserver.PostgreSQL, variable: "PGPASSFILE", value: pass, address: "/run/.s.PGSQL.5432", want: "near",
			wantSource: "passfile"},
		{product: dbserver.PostgreSQL, variable: "PGPASSFILE", value: pass, address: "10.0.0.5:5432", want: "far",
			wantSource: "passfile"},
		{product: dbserver.PostgreSQL, variable: "PGPASSFILE", value: pass, address: "10.0.0.6:5432", want: "",
			wantSource: "passfile"},
	} {
		clear(env)
		env[c.variable] = c.value
		s, err := FindSecret(c.product, c.file, c.option, getenv)
		if err != nil {
			t.Fatal(err)
		}
		target := Target{Product: c.product, Address: c.address, User: "u", Secret: s}
		if got, err := target.password(getenv); err != nil || got != c.want || string(s.From) != c.wantSource {
			t.Errorf("%+v: %q from %q, %v", c, got, s.From, err)
		}
	}
}

func FuzzOptionValue(f *testing.F) {
	f.Add("[client]\npassword='x\n")
	f.Add("[client]\npassword")
	f.Fuzz(func(t *testing.T, text string) {
		if v := optionValue(text, "password"); len(v) > len(text) {
			t.Errorf("%q gives %q", text, v)
		}
	})
}
