package web

import (
	"net/url"
	"strings"
	"testing"
)

const loginPage = `<html><!-- <form action="/fake"><input name=log></form> -->
<script>if (a < b) { s = "<input name='log' value=x>" }</script>
<FORM ACTION='/search'><input name=q type=text></form>
<form method=post class="a>b" action="/login.php?a=1&amp;b=2">
	<input type="text" name="log" value=""/><input name=pwd type=password>
	<input type=hidden name="_token" value='a&quot;b&#39;&#x26;&nope;&amp'><input type="HIDDEN" name=to value=/x/>
	<button name=go value=1>Go</button><input type=checkbox name=keep value=1 checked>
</form><input type=hidden name=outside value=1>`

func TestForms(t *testing.T) {
	r, err := parseLogin("# recorded\npage /login.php\n\nfield log=Admin\nfield pwd=a b=c&d#\r\n")
	if err != nil || r.page != "/login.php" || len(r.fields) != 2 || r.fields[1][1] != "a b=c&d#" {
		t.Fatalf("%+v, %v", r, err)
	}
	action, body, err := r.fill([]byte(loginPage))
	if err != nil || action != "/login.php?a=1&b=2" {
		t.Errorf("sent to %s, %v", action, err)
	}
	got, err := url.ParseQuery(string(body))
	want := url.Values{"log": {"Admin"}, "pwd": {"a b=c&d#"}, "_token": {`a"b'&&nope;&amp`}, "to": {"/x/"}}
	if err != nil || got.Encode() != want.Encode() {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	r, err = parseLogin("page /a\nsubmit /api?x=1\ntoken _token\ntoken keep\nfield pwd=hush\nmatch Log (out|off)\n")
	if err != nil {
		t.Fatal(err)
	}
	want = url.Values{"pwd": {"hush"}, "_token": want["_token"], "keep": {"1"}}
	if action, body, err = r.fill([]byte(loginPage)); err != nil || action != "/api?x=1" ||
		string(body) != want.Encode() {
		t.Errorf("%s %s, %v", action, body, err)
	}
	for page, want := range map[string]string{
		"": "no form with a field pwd", "<form><input name=pwd>": "no field _token", "<form": "no form",
	} {
		if _, _, err := r.fill([]byte(page)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", page, err, want)
		}
	}
	for _, bad := range []string{"", "page /a", "field a=b", "page x\nfield a=b", "page http://u:hush@h/\nfield a=b",
		"page /a\nfield hush", "page /a\nfield a=b\ntoken ", "page /a\nfield a=b\nmatch (", "user hush", "page " +
			"/a\nhush"} {
		if _, err := parseLogin(bad); err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestJar(t *testing.T) {
	var j jar
	for _, c := range []string{"a=1; Path=/; HttpOnly", "b=2", " c = x", "d=", "e", "f=\x01", "=x", "a=3; Max-Age=60",
		"b=2; expires=Thu, 01-Jan-1970 00:00:01 GMT", "g=deleted", "h=1; max-age=0", "i=" + strings.Repeat("x",
			maxCookie)} {
		j.set(c)
	}
	if got := j.header(); got != "a=3" {
		t.Errorf("kept %q", got)
	}
	for i := range 2 * maxCookies {
		j.set(strings.Repeat("x", i+1) + "=1")
	}
	if len(j.names) > maxCookies {
		t.Errorf("%d cookies are kept", len(j.names))
	}
}

// FuzzForms: pages of any kind are read within their bounds, and what is filled in is a form that can be sent.
func FuzzForms(f *testing.F) {
	f.Add([]byte(loginPage), "log")
	f.Add([]byte("<form action=x><input name=a value='&#0;&#x110000;&#xd800;'><"), "a")
	f.Fuzz(func(t *testing.T, page []byte, name string) {
		all := forms(page)
		inputs := 0
		for _, f := range all {
			inputs += len(f.inputs)
		}
		if len(all) > maxForms || inputs > maxInputs {
			t.Fatalf("%d forms with %d inputs", len(all), inputs)
		}
		r := recorded{fields: [][2]string{{name, "x"}}}
		if _, body, err := r.fill(page); err == nil {
			if v, err := url.ParseQuery(string(body)); err != nil || v.Get(name) != "x" {
				t.Fatalf("%q: %q, %v", page, body, err)
			}
		}
	})
}

// FuzzLogin: a recorded login is read or refused, and a cookie is kept only if it can be sent.
func FuzzLogin(f *testing.F) {
	f.Add("page /a\nfield a=b\ntoken c\nmatch x", "a=b; Path=/")
	f.Fuzz(func(t *testing.T, text, cookie string) {
		if r, err := parseLogin(text); err == nil && (r.page == "" || r.page[0] != '/' || len(r.fields) == 0) {
			t.Fatalf("%q: %+v", text, r)
		}
		var j jar
		j.set(cookie)
		if h := j.header(); !isValue(h) {
			t.Fatalf("%q gives %q", cookie, h)
		}
	})
}
