package changefeed_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hamba/avro/v2"
	"github.com/hamba/avro/v2/ocf"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// authority makes certificates for this test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	n    int64
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	pair := a.issue("authority", true)
	a.key = pair.PrivateKey.(*ecdsa.PrivateKey)
	a.cert = pair.Leaf
	return a
}

func (a *authority) issue(name string, ca bool) tls.Certificate {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	a.n++
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(a.n), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: ca, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	if ca {
		tmpl.KeyUsage, tmpl.ExtKeyUsage = x509.KeyUsageCertSign, nil
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = tmpl, key
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// parameter is a PEM file as addresses have it.
func parameter(typ string, der []byte) string {
	return url.QueryEscape(base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: typ, Bytes: der})))
}

func keyParameter(t *testing.T, c tls.Certificate) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return parameter("PRIVATE KEY", der)
}

// TestKafkaLogins: feeds log in by each mechanism of SASL, over TLS with certificates of both
// sides, and without TLS where that shows no password. What is wrong is said, and nothing arrives.
func TestKafkaLogins(t *testing.T) {
	ca := newAuthority(t)
	server, client := ca.issue("broker", false), ca.issue("godwit", false)
	if testing.Short() {
		t.Skip("a login that is refused is tried for 20 s")
	}
	for i, c := range []struct {
		mechanism string
		tls       bool
	}{{"PLAIN", true}, {"SCRAM-SHA-256", true}, {"SCRAM-SHA-512", true}, {"SCRAM-SHA-256", false}, {"SCRAM-SHA-512", false}} {
		t.Run(fmt.Sprintf("%s, TLS %v", c.mechanism, c.tls), func(t *testing.T) {
			opts := []kfake.Opt{kfake.EnableSASL(), kfake.Superuser(c.mechanism, "godwit", "pass word&"), kfake.Superuser("SCRAM-SHA-256", "reader", "r")}
			read := []kgo.Opt{kgo.SASL(scram.Auth{User: "reader", Pass: "r"}.AsSha256Mechanism())}
			q := "?sasl_enabled=true&sasl_mechanism=" + c.mechanism + "&sasl_user=godwit&sasl_password="
			if c.tls {
				opts = append(opts, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{server}, ClientCAs: ca.pool(), ClientAuth: tls.RequireAndVerifyClientCert}))
				read = append(read, kgo.DialTLSConfig(&tls.Config{RootCAs: ca.pool(), Certificates: []tls.Certificate{client}}))
				q = "?tls_enabled=true&ca_cert=" + parameter("CERTIFICATE", ca.cert.Raw) + "&client_cert=" + parameter("CERTIFICATE", client.Leaf.Raw) +
					"&client_key=" + keyParameter(t, client) + "&" + q[1:]
			}
			_, brokers := fakeKafka(t, opts...)
			w := newWorld(t, "kafka://"+brokers[0], "kafka://"+brokers[1])
			w.exec("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
			at := "t INTO 'kafka://" + strings.Join(brokers, ",")
			if i < 2 {
				wrong := w.create(at + q + "wrong' WITH updated")
				until(t, "the trouble shows", func() bool { return w.shown(wrong)["error"] != "" })
				if f := w.shown(wrong); f["rows"] != "0" && f["rows"] != "" {
					t.Errorf("with a wrong password rows have arrived: %q", f)
				}
				w.exec("CANCEL JOB " + wrong)
			}
			w.create(at + q + url.QueryEscape("pass word&") + "' WITH updated, key_in_value, resolved = '100ms'")
			consumer, err := kgo.NewClient(append(read, kgo.SeedBrokers(brokers...), kgo.ConsumeTopics("test.t"),
				kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.MetadataMinAge(10e6))...)
			if err != nil {
				t.Fatal(err)
			}
			defer consumer.Close()
			for got := ""; got == ""; {
				fs := consumer.PollFetches(t.Context())
				if fs.Err0() != nil {
					t.Fatal(fs.Err0())
				}
				fs.EachRecord(func(r *kgo.Record) {
					if r.Key != nil {
						got = string(r.Value)
					}
				})
				if got != "" && !strings.HasPrefix(got, `{"after":{"id":1},`) {
					t.Errorf("the message is %s", got)
				}
			}
			if i == 0 { // a certificate that nobody has asked for
				other := newAuthority(t)
				stranger := strings.Replace(at+q+"x", parameter("CERTIFICATE", ca.cert.Raw), parameter("CERTIFICATE", other.cert.Raw), 1)
				id := w.create(stranger + "' WITH updated")
				until(t, "the trouble shows", func() bool { return strings.Contains(w.shown(id)["error"], "certificate") })
			}
		})
	}
}

// registry is a schema registry of Confluent's protocol, as far as writers and readers ask it.
type registry struct {
	*httptest.Server
	mu       sync.Mutex
	schemas  []string
	subjects map[string][]int
	asked    int
}

func newRegistry(t *testing.T) *registry {
	t.Helper()
	r := &registry{subjects: map[string][]int{}}
	r.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.asked++
		var body struct{ Schema string }
		subject, ok := strings.CutPrefix(q.URL.Path, "/base/subjects/")
		subject, versions := strings.CutSuffix(subject, "/versions")
		user, password, _ := q.BasicAuth()
		switch {
		case user != "u" || password != "p@":
			w.WriteHeader(http.StatusUnauthorized)
		case !ok || !versions || q.Method != http.MethodPost || json.NewDecoder(q.Body).Decode(&body) != nil:
			w.WriteHeader(http.StatusNotFound)
		case r.asked == 2: // once
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			if _, err := avro.Parse(body.Schema); err != nil {
				w.WriteHeader(http.StatusUnprocessableEntity)
				return
			}
			i := slices.Index(r.schemas, body.Schema)
			if i < 0 {
				i, r.schemas = len(r.schemas), append(r.schemas, body.Schema)
			}
			if !slices.Contains(r.subjects[subject], i) {
				r.subjects[subject] = append(r.subjects[subject], i)
			}
			fmt.Fprintf(w, `{"id":%d}`, i+100)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

// decoded is a message of Kafka, decoded by another implementation of Avro, in JSON.
func (r *registry) decoded(t *testing.T, b []byte) map[string]any {
	t.Helper()
	if len(b) < 5 || b[0] != 0 {
		t.Errorf("%x is not framed", b)
		return nil
	}
	r.mu.Lock()
	text := r.schemas[binary.BigEndian.Uint32(b[1:])-100]
	r.mu.Unlock()
	return decoded(t, text, b[5:])
}

func decoded(t *testing.T, text string, b []byte) (out map[string]any) {
	t.Helper()
	s, err := avro.ParseWithCache(text, "", &avro.SchemaCache{})
	if err == nil {
		err = avro.Unmarshal(s, b, &out)
	}
	if err != nil {
		t.Errorf("%x: %v", b, err)
	}
	return out
}

// flat takes the names of types away that the decoder puts around values of unions.
func flat(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	for k, x := range m {
		if len(m) == 1 && !strings.HasPrefix(k, "c_") && k != "resolved" {
			return flat(x)
		}
		m[k] = flat(x)
	}
	return m
}

func jsonOf(t *testing.T, topic string, m map[string]any) []byte {
	t.Helper()
	out := map[string]any{"topic": topic}
	for k, v := range m {
		if k == "key" {
			k, v = "key", []any{flat(v)}
		}
		if v != nil {
			out[k] = flat(v)
		}
	}
	b, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestAvroInKafka: a reader with a registry, and an implementation of Avro that is not ours, has
// the table at each mark, also when its definition changes and the registry fails now and then.
func TestAvroInKafka(t *testing.T) {
	_, brokers := fakeKafka(t)
	r := newRegistry(t)
	at, err := url.Parse(r.URL)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, "kafka://"+brokers[0], "kafka://"+brokers[1], r.URL+"/base")
	reg := "https://u:p%40@" + at.Host + "/base?ca_cert=" + parameter("CERTIFICATE", r.Certificate().Raw)
	w.exec("CREATE TABLE t (c_id INT PRIMARY KEY, c_v VARCHAR(20))", "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, NULL)")
	refused(t, w.c, "--changefeed-sink https://elsewhere.test", "CREATE CHANGEFEED FOR t INTO 'kafka://"+brokers[0]+
		"' WITH format = 'avro', confluent_schema_registry = 'https://elsewhere.test'")
	id := w.create("t INTO 'kafka://" + strings.Join(brokers, ",") + "' WITH updated, key_in_value, resolved = '100ms', format = 'avro', " +
		"confluent_schema_registry = '" + reg + "'")
	consumer, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics("test.t"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.MetadataMinAge(10e6))
	if err != nil {
		t.Fatal(err)
	}
	defer consumer.Close()
	j := newJudge(t)
	marks := map[int32]uint64{}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			consumer.PollFetches(ctx).EachRecord(func(rec *kgo.Record) {
				m := r.decoded(t, rec.Value)
				if rec.Key != nil {
					r.decoded(t, rec.Key)
					j.take(jsonOf(t, "test.t", m))
					return
				}
				marks[rec.Partition] = moment(t, m["resolved"].(string))
				if least := marks[0]; len(marks) == 3 {
					for _, m := range marks {
						least = min(least, m)
					}
					j.take(fmt.Appendf(nil, `{"resolved":"%d.0000000000"}`, least))
				}
			})
		}
	}()
	for i := range 20 {
		w.exec(fmt.Sprintf("REPLACE INTO t VALUES (%d, 'v%d')", i%7, i))
	}
	j.agreeAs(w, "test.t", "test.t", "c_id", "c_v")
	w.exec("ALTER TABLE t ADD COLUMN c_d DECIMAL(10, 2) DEFAULT 1.5", "DELETE FROM t WHERE c_id = 3", "INSERT INTO t VALUES (30, 'x', NULL)")
	j.agreeAs(w, "test.t", "test.t", "c_id", "c_v")
	cancel()
	<-done
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.subjects["test.t-key"]) != 1 || len(r.subjects["test.t-value"]) < 2 || r.asked < 4 {
		t.Errorf("subjects: %v, asked %d times", r.subjects, r.asked)
	}
	for _, q := range []string{"SHOW JOBS", "SHOW FULL PROCESSLIST", "SELECT * FROM performance_schema.events_statements_summary_by_digest"} {
		if lines := fmt.Sprint(w.query(q)); strings.Contains(lines, "p%40") {
			t.Errorf("%s shows a password: %s", q, lines)
		}
	}
	if f := w.shown(id); strings.Contains(fmt.Sprint(f), "p%40") || !strings.Contains(f["options"], "format = 'avro'") {
		t.Errorf("SHOW CHANGEFEEDS: %q", f)
	}
}

// TestFormatsOfFiles: files of Avro and of CSV, read by other implementations, have the table.
func TestFormatsOfFiles(t *testing.T) {
	w := newWorld(t)
	w.exec("CREATE TABLE t (c_id INT PRIMARY KEY, c_v VARCHAR(40), c_j JSON)", `INSERT INTO t VALUES (1, 'a,"b"', '{"x": 1}'), (2, NULL, '"y"'), (3, '', NULL)`)
	for _, with := range []string{"avro", "csv", "avro', compression = 'zstd"} {
		dir := filepath.Join(w.dir, strings.NewReplacer("'", "", " ", "", ",", "", "=", "").Replace(with))
		w.create("t INTO 'file://" + dir + "' WITH updated, resolved = '100ms', format = '" + with + "'")
	}
	w.exec("UPDATE t SET c_v = 'line\nline' WHERE c_id = 1", "DELETE FROM t WHERE c_id = 2", "ALTER TABLE t ADD COLUMN c_n INT DEFAULT 7",
		"INSERT INTO t VALUES (4, 'd', NULL, NULL)")
	want := []string{"1|line\nline|7", "3||7", "4|d|NULL"}
	for dir, read := range map[string]func(*testing.T, string) map[string]string{"avro": readAvro, "avrocompressionzstd": readAvro, "csv": readCSV} {
		var got []string
		until(t, "all in "+dir, func() bool {
			got = nil
			for _, v := range read(t, filepath.Join(w.dir, dir)) {
				got = append(got, v)
			}
			slices.Sort(got)
			return slices.Equal(got, want)
		})
	}
	for with, why := range map[string]string{"format = 'csv', diff": "has the row alone", "format = 'avro', compression = 'gzip'": "compression = 'zstd'",
		"format = 'avro', confluent_schema_registry = 'https://r'": "files have their schemas in them", "format = 'avro', envelope = 'row'": "takes envelope = 'wrapped'"} {
		refused(t, w.c, why, "CREATE CHANGEFEED FOR t INTO 'file://"+w.dir+"/x' WITH "+with)
	}
}

// inOrder are the files of a feed, in the order of their names.
func inOrder(t *testing.T, dir, ext string) (out [][]byte) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "2*", "*"+ext))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(files)
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b)
	}
	return out
}

func line(id, v, n any) string {
	s := func(x any) string {
		if x == nil {
			return "NULL"
		}
		return fmt.Sprint(x)
	}
	return s(id) + "|" + s(v) + "|" + s(n)
}

// readAvro is the newest row of each key.
func readAvro(t *testing.T, dir string) map[string]string {
	t.Helper()
	rows := map[string]string{}
	for _, b := range inOrder(t, dir, ".avro") {
		d, err := ocf.NewDecoder(bytes.NewReader(b), ocf.WithDecoderSchemaCache(&avro.SchemaCache{}))
		if err != nil {
			t.Fatal(err)
		}
		for d.HasNext() {
			var m map[string]any
			if err := d.Decode(&m); err != nil {
				t.Fatal(err)
			}
			key := fmt.Sprint(flat(m["key"]))
			if delete(rows, key); m["after"] != nil {
				after := flat(m["after"]).(map[string]any)
				rows[key] = line(after["c_id"], after["c_v"], after["c_n"])
			}
		}
		if d.Error() != nil {
			t.Fatal(d.Error())
		}
	}
	return rows
}

// readCSV is the newest row of each key.
func readCSV(t *testing.T, dir string) map[string]string {
	t.Helper()
	rows := map[string]string{}
	for _, b := range inOrder(t, dir, ".csv") {
		r := csv.NewReader(bytes.NewReader(b))
		var head []string
		for {
			rec, err := r.Read()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if head == nil {
				head = rec
				continue
			}
			at := func(name string) any {
				i := slices.Index(head, name)
				if i < 0 || rec[i] == "" && name == "c_n" {
					return nil
				}
				return rec[i]
			}
			id := fmt.Sprint(at("c_id"))
			if delete(rows, id); rec[0] == "upsert" {
				rows[id] = line(id, at("c_v"), at("c_n"))
			}
		}
	}
	return rows
}
