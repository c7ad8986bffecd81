package web

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// recorded is a login as somebody has recorded it: the page with the form, and what a user types into it.
type recorded struct {
	page   string
	submit string // where the form is sent; "" for where the form says
	fields [][2]string
	tokens []string // fields that are taken from the page; nil for all that are hidden
	match  *regexp.Regexp
}

// parseLogin reads the lines of a recorded login. No error repeats a value, which may be a password.
func parseLogin(text string) (*recorded, error) {
	r := &recorded{}
	n := 0
	for line := range strings.Lines(text) {
		n++
		refuse := func(why string) (*recorded, error) { return nil, fmt.Errorf("login: line %d: %s", n, why) }
		line = strings.TrimRight(line, "\r\n")
		if strings.TrimSpace(line) == "" || line[0] == '#' {
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		switch word {
		case "page", "submit":
			u, err := url.Parse(rest)
			if err != nil || u.User != nil || u.Path == "" || u.Path[0] != '/' {
				return refuse(word + " needs a path that begins with /")
			}
			if word == "page" {
				r.page = u.RequestURI()
			} else {
				r.submit = u.RequestURI()
			}
		case "field":
			name, value, ok := strings.Cut(rest, "=")
			if !ok || name == "" {
				return refuse("a field has the form: field NAME=VALUE")
			}
			r.fields = append(r.fields, [2]string{name, value})
		case "token":
			if rest == "" {
				return refuse("a token has the form: token NAME")
			}
			r.tokens = append(r.tokens, rest)
		case "match":
			var err error
			if r.match, err = regexp.Compile(rest); err != nil || rest == "" {
				return refuse("match needs a regular expression")
			}
		default:
			return refuse("it must begin with page, field, token, submit or match")
		}
	}
	if r.page == "" || len(r.fields) == 0 {
		return nil, errors.New("login: it needs a line page PATH, and lines field NAME=VALUE for user and password")
	}
	return r, nil
}

// form is a form of a page, as far as it can be sent.
type form struct {
	action string
	inputs []input
}

type input struct {
	name, value string
	hidden      bool
}

// Bounds of a page with a form.
const (
	maxForms  = 256
	maxInputs = 4096
)

// forms finds the forms of a page with their inputs. What is outside of a form counts as a form of its own, the first.
func forms(page []byte) []form {
	all := []form{{}}
	inside, inputs := 0, 0
	for len(page) > 0 {
		i := bytes.IndexByte(page, '<')
		if i < 0 {
			break
		}
		page = page[i+1:]
		if bytes.HasPrefix(page, []byte("!--")) {
			if i = bytes.Index(page, []byte("-->")); i < 0 {
				break
			}
			page = page[i+3:]
			continue
		}
		name, attrs, rest := tag(page)
		page = rest
		switch name {
		case "script", "style":
			if i = bytes.Index(page, []byte("</"+name)); i >= 0 {
				page = page[i:]
			}
		case "form":
			if len(all) < maxForms {
				all = append(all, form{action: attrs["action"]})
				inside = len(all) - 1
			}
		case "/form":
			inside = 0
		case "input", "button":
			if attrs["name"] != "" && inputs < maxInputs {
				inputs++
				f := &all[inside]
				f.inputs = append(f.inputs, input{attrs["name"], attrs["value"],
					name == "input" && strings.EqualFold(attrs["type"], "hidden")})
			}
		}
	}
	return all
}

// tag reads what follows a <: the name in lower case, the attributes that forms need, and what comes after the tag.
func tag(p []byte) (name string, attrs map[string]string, rest []byte) {
	i := 0
	for i < len(p) && i < 16 && (isLetter(p[i]) || i == 0 && p[i] == '/') {
		i++
	}
	name = strings.ToLower(string(p[:i]))
	wanted := name == "form" || name == "input" || name == "button"
	if i == 0 {
		return "", nil, p
	}
	attrs = map[string]string{}
	for p = p[i:]; len(p) > 0; {
		switch {
		case p[0] == '>':
			return name, attrs, p[1:]
		case isBlank(p[0]) || p[0] == '/':
			p = p[1:]
			continue
		}
		key, value := "", ""
		i = bytes.IndexAny(p, "=> \t\r\n\f/")
		if i < 0 {
			return name, attrs, nil
		}
		if i == 0 { // a stray =
			p = p[1:]
			continue
		}
		key = strings.ToLower(string(p[:min(i, 64)]))
		p = bytes.TrimLeft(p[i:], " \t\r\n\f")
		if len(p) > 0 && p[0] == '=' {
			value, p = attribute(bytes.TrimLeft(p[1:], " \t\r\n\f"))
		}
		if _, ok := attrs[key]; wanted && !ok && (key == "name" || key == "value" || key == "type" || key == "action") {
			attrs[key] = unescape(value)
		}
	}
	return name, attrs, nil
}

// attribute reads a value, quoted or not.
func attribute(p []byte) (value string, rest []byte) {
	if len(p) == 0 {
		return "", nil
	}
	if q := p[0]; q == '"' || q == '\'' {
		i := bytes.IndexByte(p[1:], q)
		if i < 0 {
			return "", nil
		}
		return string(p[1 : 1+i]), p[2+i:]
	}
	i := bytes.IndexAny(p, "> \t\r\n\f")
	if i < 0 {
		i = len(p)
	}
	return string(p[:i]), p[i:]
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f' }

// unescape replaces the references that programs write into attributes: numbers, and those of HTML's own characters.
func unescape(s string) string {
	var b strings.Builder
	for {
		i := strings.IndexByte(s, '&')
		if i < 0 {
			break
		}
		b.WriteString(s[:i])
		s = s[i:]
		end := strings.IndexByte(s[:min(len(s), 12)], ';')
		r, ok := rune(0), false
		if end > 1 {
			r, ok = reference(s[1:end])
		}
		if !ok {
			b.WriteByte('&')
			s = s[1:]
			continue
		}
		b.WriteRune(r)
		s = s[end+1:]
	}
	b.WriteString(s)
	return b.String()
}

func reference(name string) (rune, bool) {
	switch name {
	case "amp":
		return '&', true
	case "lt":
		return '<', true
	case "gt":
		return '>', true
	case "quot":
		return '"', true
	case "apos":
		return '\'', true
	}
	if digits, ok := strings.CutPrefix(name, "#"); ok {
		base := 10
		if hex, ok := strings.CutPrefix(strings.ToLower(digits), "x"); ok {
			digits, base = hex, 16
		}
		n, err := strconv.ParseUint(digits, base, 32)
		if err == nil && n > 0 && n <= utf8.MaxRune && utf8.ValidRune(rune(n)) {
			return rune(n), true
		}
	}
	return 0, false
}

// has tells whether a form has an input of that name.
func (f *form) has(name string) bool {
	for _, in := range f.inputs {
		if in.name == name {
			return true
		}
	}
	return false
}

// fill returns where the form is sent, and the body: what was typed, and what the page brings.
func (r *recorded) fill(page []byte) (action string, body []byte, err error) {
	var at *form
	all := forms(page)
	for i := range all {
		if at == nil && all[i].has(r.fields[0][0]) {
			at = &all[i]
		}
	}
	for i := range all {
		if at == nil && len(r.tokens) > 0 && all[i].has(r.tokens[0]) {
			at = &all[i]
		}
	}
	if at == nil {
		return "", nil, fmt.Errorf("the login page has no form with a field %s", r.fields[0][0])
	}
	values := url.Values{}
	for _, in := range at.inputs {
		if in.hidden && r.tokens == nil {
			values.Set(in.name, in.value)
		}
	}
	for _, name := range r.tokens {
		if !at.has(name) {
			return "", nil, fmt.Errorf("the login page's form has no field %s, which a token line names", name)
		}
		for _, in := range at.inputs {
			if in.name == name {
				values.Set(name, in.value)
			}
		}
	}
	for _, f := range r.fields {
		values.Set(f[0], f[1])
	}
	if action = r.submit; action == "" {
		action = at.action
	}
	return action, []byte(values.Encode()), nil
}

// Bounds of the cookies of a login.
const (
	maxCookies = 64
	maxCookie  = 4 << 10
)

// jar keeps the cookies of one server. It knows no paths: a server gets all of them.
type jar struct{ names, values []string }

// set takes a Set-Cookie header. Cookies over the bounds are dropped.
func (j *jar) set(header string) {
	first, rest, _ := strings.Cut(header, ";")
	name, value, ok := strings.Cut(strings.TrimSpace(first), "=")
	if !ok || !isToken(name) || !isValue(value) || len(first) > maxCookie {
		return
	}
	lower := strings.ToLower(rest)
	gone := value == "" || value == "deleted" || strings.Contains(lower, "1970")
	if _, age, ok := strings.Cut(lower, "max-age="); ok {
		age, _, _ = strings.Cut(age, ";")
		n, err := strconv.ParseInt(strings.TrimSpace(age), 10, 64)
		gone = gone || err == nil && n <= 0
	}
	for i := range j.names {
		if j.names[i] == name {
			if j.values[i] = value; gone {
				j.names = append(j.names[:i], j.names[i+1:]...)
				j.values = append(j.values[:i], j.values[i+1:]...)
			}
			return
		}
	}
	if !gone && len(j.names) < maxCookies {
		j.names, j.values = append(j.names, name), append(j.values, value)
	}
}

// header is the Cookie header's value.
func (j *jar) header() string {
	var b strings.Builder
	for i, name := range j.names {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(name + "=" + j.values[i])
	}
	return b.String()
}
