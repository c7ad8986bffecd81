package agent

import "testing"

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		words []string
		want  options
		bad   bool
	}{
		{words: nil},
		{words: []string{"--dir", "/a b", "--remove=/.tare-1"}, want: options{dir: "/a b", remove: "/.tare-1"}},
		{words: []string{"--home", "", "--version"}, want: options{version: true}},
		{words: []string{"--dir="}},
		{words: []string{"--dir"}, bad: true},
		{words: []string{"--die", "x"}, bad: true},
		{words: []string{"dir"}, bad: true},
	} {
		var got options
		if err := got.parse(c.words); (err != nil) != c.bad || !c.bad && got != c.want {
			t.Errorf("%q: %+v %v", c.words, got, err)
		}
	}
}
