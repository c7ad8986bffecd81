package namespace

import (
	"errors"
	"strings"
	"testing"

	"tare/internal/lab/deploy"
	"tare/internal/lab/env"
	"tare/internal/lab/envtest"
	"tare/internal/lab/stack"
	"tare/internal/record"
	"tare/internal/sys/sql/promise"
)

// attachStack opens an environment with a stack.
func attachStack(t *testing.T, o env.Options, st stack.Stack) *deploy.Conn {
	t.Helper()
	e, err := Driver{}.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	if e.Facts().Extra["stack.key"] != st.Key {
		t.Errorf("facts %v", e.Facts().Extra)
	}
	s, err := deploy.Attach(t.Context(), e, o.RunID)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// sameAgain holds that a site has the same content whenever it is installed: what the recipe writes now is what it
// wrote at the installation, each page in the database and each picture.
func sameAgain(t *testing.T, s *deploy.Conn, state map[string]string) {
	t.Helper()
	envtest.Shell(t, s, "set -e; code="+state["stack_code"]+`; made=$(mktemp -d); . /srv/tare-stack/settings
php /srv/tare-stack/recipe/content.php "$made" "$PAGES" "$COMMENTS" "$USERS" "$PICTURES"
php "$code/maintenance/dumpBackup.php" --current --quiet >"$made/site.xml"
php -r '
	function texts($file) {
		$all = [];
		foreach (simplexml_load_file($file)->page as $p) $all[(string)$p->title] = rtrim($p->revision->text);
		return $all;
	}
	[$made, $has] = [texts("$argv[1]/content.xml"), texts("$argv[1]/site.xml")];
	foreach ($made as $title => $text) {
		if (($has[$title] ?? null) === $text) continue;
		fwrite(STDERR, "$title differs\n");
		exit(1);
	}
	exit(count($made) - $argv[2] - $argv[3] < 40 ? 1 : 0); // topics and templates
' "$made" "$PAGES" "$COMMENTS"
for n in $(seq "$PICTURES"); do
	cmp "$made/pictures/Picture $n.png" "$(find "$code/images" -name "Picture_$n.png" -not -path "*/thumb/*")"
done
rm -r "$made"`)
}

// TestStack serves a real site, with its code on the container's own disk and on a mount.
func TestStack(t *testing.T) {
	if testing.Short() {
		t.Skip("a site has to be installed")
	}
	st := envtest.Stack(t, envtest.SmallStack)
	t.Run("serves", func(t *testing.T) {
		s := attachStack(t, options(t, spec("stack", envtest.SmallStack+",opcache=off")), st)
		state := envtest.Site(t, s, "")
		if state["stack_opcache"] != "off" || state["stack_key"] != st.Key {
			t.Errorf("state %v", state)
		}
		if !strings.Contains(state[promise.State], "innodb_flush_log_at_trx_commit=1 ") {
			t.Errorf("the site's database promises %q", state[promise.State])
		}
		opcache(t, s, state, "off")
		sameAgain(t, s, state)

		// The site's death between trials is the trial's failure, with the reason; the next trial has it again.
		envtest.Shell(t, s, "kill -9 $(cat "+state["stack_home"]+"/pid/database) && sleep 0.5")
		_, err := envtest.Load(t, s, "", "url", "stack:@front")
		if f, ok := errors.AsType[*record.Failure](err); !ok || f.Kind != "service-died" ||
			!strings.Contains(f.Message, "database has ended with status 137") {
			t.Errorf("after MariaDB was killed: %v", err)
		}
		if _, err := envtest.Load(t, s, "", "url", "stack:@front"); err != nil {
			t.Errorf("after it was started again: %v", err)
		}
		_, err = envtest.Load(t, s, "", "url", "stack-lighttpd:@front")
		if err == nil || !strings.Contains(err.Error(), "stack-varnish:/PATH") {
			t.Errorf("a front end that there is not: %v", err)
		}
	})
	t.Run("on mounts", func(t *testing.T) {
		o := options(t, spec("stack", envtest.SmallStack))
		o.Mounts = []env.Spec{mount("share", "bind"), mount("small", "tmpfs", "size", "16MiB")}
		s := attachStack(t, o, st)
		if _, err := envtest.Load(t, s, target("share"), "url", "stack:@front"); err != nil {
			t.Error(err)
		}
		envtest.Shell(t, s, "find "+target("share")+" -name LocalSettings.php | grep -q .")
		r, err := envtest.Load(t, s, target("share"), "url", "stack:@front")
		if err != nil {
			t.Fatal(err)
		}
		opcache(t, s, r.State, "on")
		envtest.ColdSite(t, s, target("share"))
		// A disk that is too small.
		_, err = envtest.Load(t, s, target("small"), "url", "stack:@front")
		if f, ok := errors.AsType[*record.Failure](err); !ok || !strings.Contains(f.Message, "free some space") {
			t.Errorf("on a full disk: %v", err)
		}
	})
	t.Run("wordpress", func(t *testing.T) {
		press := envtest.Stack(t, envtest.SmallPress)
		s := attachStack(t, options(t, spec("stack", envtest.SmallPress)), press)
		for _, params := range [][]string{
			{"url", "stack:@front"}, {"url", "stack-nginx:@front", "cookie", "user"}, {"url", "stack-varnish:@heavy"},
			{"url", "stack-nginx:/post-3/"},
		} {
			r, err := envtest.Load(t, s, "", params...)
			if err != nil || r.State["stack_name"] != "wordpress" {
				t.Fatalf("%v: %v, state %v", params, err, r.State)
			}
		}
		// A page is not found, and a page of the login is not what was asked for.
		for _, page := range []string{"/no-such-post/", "/wp-admin/"} {
			if _, err := envtest.Load(t, s, "", "url", "stack:"+page); err == nil {
				t.Errorf("%s counts as a page", page)
			}
		}
	})
	t.Run("none", func(t *testing.T) {
		o := options(t, spec())
		_, s := envtest.Open(t, Driver{}, o)
		_, err := envtest.Load(t, s, "", "url", "stack:@front")
		if f, ok := errors.AsType[*record.Failure](err); !ok || f.Kind != "refused" ||
			!strings.Contains(f.Message, "tare stack build") {
			t.Errorf("an environment without a stack: %v", err)
		}
	})
	for name, bad := range map[string]env.Spec{
		"leave one of them out":                  spec("stack", "mediawiki", "root", "/"),
		"user=host":                              spec("stack", envtest.SmallStack, "user", "own"),
		"tare stack build mediawiki,pages=99999": spec("stack", "mediawiki,pages=99999"),
	} {
		e, err := Driver{}.Open(t.Context(), options(t, bad))
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v: %v, want %q", bad, err, name)
		}
		if err == nil {
			e.Close()
		}
	}
}
