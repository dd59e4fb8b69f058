package sink

import (
	"encoding/json"
	"testing"
)

// FuzzAnswer: whatever a registry says, it is a number or an error.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{`{"id":7}`, `{"id":-1}`, `{"id":1e99}`, `{"message":"no"}`, `[]`, ``, `{"id":null}`, `{"id":4294967296}`} {
		f.Add(200, []byte(s))
		f.Add(409, []byte(s))
	}
	f.Fuzz(func(t *testing.T, status int, b []byte) {
		id, err := answer("h", "s", status, b)
		var a struct{ ID json.Number }
		if err == nil && (status/100 != 2 || id < 0 || json.Unmarshal(b, &a) != nil) {
			t.Errorf("%d %q is %d", status, b, id)
		}
	})
}
