package log

import (
	"strings"
	"testing"
)

// TestUnknownJSON: objects of a form that is not known are said to be that, and are no lines with a prefix.
func TestUnknownJSON(t *testing.T) {
	const text = `{"LogicalServerName": "shop", "properties": {"timestamp": "2026-11-23 10:00:00.123 UTC", "processId": 12,` +
		`"errorLevel": "LOG", "message": "2026-11-23 10:00:00 UTC-1-LOG: execute <unnamed>: SELECT 1"}}` + "\n"
	_, err := Open(strings.NewReader(strings.Repeat(text, 3)), Options{})
	if err == nil || !strings.Contains(err.Error(), "JSON of a form that is not known") {
		t.Errorf("%v", err)
	}
}
