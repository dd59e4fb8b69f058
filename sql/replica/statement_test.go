package replica

import (
	"strings"
	"testing"
)

// FuzzParse: no text ends the process, and no error shows what is in quotes.
func FuzzParse(f *testing.F) {
	f.Add("CHANGE REPLICATION SOURCE TO SOURCE_HOST='h', SOURCE_PORT=3306, SOURCE_PASSWORD='hush', SOURCE_LOG_FILE='b.1', SOURCE_LOG_POS=4 FOR CHANNEL 'c'")
	f.Add("change master to master_password='hush' master_user='u'")
	f.Add("CHANGE MASTER TO MASTER_HEARTBEAT_PERIOD=1.5, IGNORE_SERVER_IDS=(), MASTER_USE_GTID=no")
	f.Add("reset slave all for channel ''")
	f.Add("SHOW REPLICA STATUS FOR CHANNEL `x`")
	f.Fuzz(func(t *testing.T, q string) {
		st := Parse(q)
		if st == nil {
			return
		}
		if st.err != nil {
			if strings.Contains(q, "'hush'") && strings.Contains(st.err.Error(), "hush'") {
				t.Errorf("%q: %v", q, st.err)
			}
			return
		}
		c := newChannel(st.channel)
		for _, o := range st.set {
			o.to(c)
		}
		if c.Port < 1 || c.Port > 65535 || c.At.Off < firstOffset {
			t.Errorf("%q: %+v", q, c)
		}
	})
}
