package changefeed

import (
	"strings"
	"testing"

	"github.com/godwitdb/godwit/sql/changefeed/sink"
)

// FuzzParse: no text and no address ends the process, and no error shows what is in quotes.
func FuzzParse(f *testing.F) {
	f.Add("CREATE CHANGEFEED FOR t, `a b`.u INTO 'kafka://h:1,i?sasl_enabled=true&sasl_user=u&sasl_password=hush' WITH updated, resolved = '1s'")
	f.Add("create changefeed for table t into 'https://u:hush@h/p?ca_cert=x' with webhook_auth_header='hush', cursor = '-5s'")
	f.Add("SHOW CHANGEFEED JOB 7")
	f.Add("PAUSE JOB 99999999999999999999")
	f.Fuzz(func(t *testing.T, q string) {
		if st := Parse(q); st != nil && st.err != nil && strings.Contains(q, "'hush'") && strings.Contains(st.err.Error(), "hush'") {
			t.Errorf("%q: %v", q, st.err)
		}
		if a, err := sink.Parse(q); err == nil {
			_ = a.String() + a.Topic("x")
		}
	})
}
