package capture

import (
	"cmp"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgpassfile"

	"tare/internal/measure/dbserver"
	"tare/internal/sys/sql"
)

// Secret says where a password is, so that a note need not contain it.
type Secret struct {
	From Source `json:"from,omitempty"`
	Name string `json:"name,omitempty"` // of the variable, or the absolute path of the file
}

// Source is a kind of place for a password.
type Source string

// The sources. The zero value means that there is no password.
const (
	Variable     Source = "variable"
	PasswordFile Source = "password file" // its first line
	OptionFile   Source = "option file"   // of MySQL: password in the section [client]
	PassFile     Source = "passfile"      // of PostgreSQL, such as ~/.pgpass
)

func (s Secret) String() string {
	if s.From == "" {
		return "no password was given"
	}
	return "the password is that of the " + string(s.From) + " " + s.Name
}

// FindSecret says where the password is: in a password file or an option file, if one is given, or else where a
// variable of the product tells.
func FindSecret(p dbserver.Product, passwordFile, optionFile string, getenv func(string) string) (s Secret, err error) {
	variable := "MYSQL_PWD"
	if p == dbserver.PostgreSQL {
		variable = "PGPASSWORD"
	}
	switch {
	case passwordFile != "":
		s = Secret{PasswordFile, passwordFile}
	case optionFile != "":
		s = Secret{OptionFile, optionFile}
	case getenv(variable) != "":
		return Secret{Variable, variable}, nil
	case p == dbserver.PostgreSQL && getenv("PGPASSFILE") != "":
		s = Secret{PassFile, getenv("PGPASSFILE")}
	default:
		return s, nil
	}
	s.Name, err = filepath.Abs(s.Name)
	return s, err
}

// password reads the password.
func (t *Target) password(getenv func(string) string) (string, error) {
	switch t.Secret.From {
	case Variable:
		return getenv(t.Secret.Name), nil
	case PassFile:
		f, err := pgpassfile.ReadPassfile(t.Secret.Name)
		if err != nil {
			return "", fmt.Errorf("read the password: %w", err)
		}
		host, port := "localhost", filepath.Ext(t.Address) // of /run/postgresql/.s.PGSQL.5432
		if a, err := netip.ParseAddrPort(t.Address); err == nil {
			host, port = a.Addr().String(), "."+fmt.Sprint(a.Port())
		}
		return f.FindPassword(host, strings.TrimPrefix(port, "."), database, t.User), nil
	case PasswordFile:
		return sql.Password(t.Secret.Name)
	case OptionFile:
		text, err := os.ReadFile(t.Secret.Name)
		if err != nil {
			return "", fmt.Errorf("read the password: %w", err)
		}
		return optionValue(string(text), "password"), nil
	}
	return "", nil
}

// optionValue returns the last value of an option in the section [client] of an option file (MySQL Reference Manual,
// "Using Option Files").
func optionValue(text, name string) (value string) {
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = strings.Trim(line, "[] ")
			continue
		}
		key, v, _ := strings.Cut(line, "=")
		if section != "client" || strings.TrimSpace(key) != name {
			continue
		}
		v = strings.TrimSpace(v)
		if quote := cmp.Or(v, " ")[0]; quote == '"' || quote == '\'' {
			v, _, _ = strings.Cut(v[1:], string(quote))
		} else {
			v, _, _ = strings.Cut(v, " #")
		}
		value = strings.NewReplacer(`\\`, `\`, `\s`, " ", `\t`, "\t", `\"`, `"`, `\'`, "'").Replace(strings.TrimSpace(v))
	}
	return value
}
