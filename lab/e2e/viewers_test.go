package e2e

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestConsoleIsLight: five viewers of the map cost a node less than a hundredth of a processor more
// than none, and what a browser fetches once is less than 500 KB.
func TestConsoleIsLight(t *testing.T) {
	needTime(t)
	c := startCluster(t, t.TempDir(), 3, 1)
	t.Cleanup(c.kill)
	c.logOnFailure(t)
	base := "https://" + c.nodes[0].addr + "/console/"
	const length = 30 * time.Second
	time.Sleep(5 * time.Second) // what a start does is over
	// Which of two stretches is the quieter one is chance, so each is measured twice, in turn.
	idle, watched := 0.0, 0.0
	var viewers []*viewer
	for range 5 {
		viewers = append(viewers, newViewer(t, base))
	}
	for range 2 {
		idle += spent(t, c, length, nil)
		watched += spent(t, c, length, viewers)
	}
	share := 100 * (watched - idle) / (2 * length.Seconds())
	t.Logf("the console's node takes %.2f %% of a processor without viewers, and %.2f %% more with five of the map",
		100*idle/(2*length.Seconds()), share)
	if share >= 2 { // half of it is left to processors that others keep busy, and caches that they empty
		t.Errorf("five viewers cost %.2f %% of a processor", share)
	}
	if viewers[0].fetched >= 500_000 {
		t.Errorf("a browser fetches %d bytes at first", viewers[0].fetched)
	}
	t.Logf("a browser fetches %d bytes at first", viewers[0].fetched)
}

// viewer is a browser without a screen.
type viewer struct {
	http.Client
	t       *testing.T
	base    string
	fetched int
}

func newViewer(t *testing.T, base string) *viewer {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	v := &viewer{t: t, base: base}
	v.Client = http.Client{Jar: jar, Timeout: 20 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	t.Cleanup(v.CloseIdleConnections)
	for _, file := range []string{"", "app.js", "map.js", "style.css", "world.json", "icon.svg"} {
		v.fetched += v.get(file)
	}
	body, _ := json.Marshal(map[string]string{"user": "root", "password": ""})
	req, err := http.NewRequest(http.MethodPost, base+"api/login", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Origin", strings.TrimSuffix(base, "/console/"))
	res, err := v.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(res.Body)
		t.Fatalf("login: %s %s", res.Status, text)
	}
	return v
}

// get is how many bytes come for a path, as they are sent: compressed, if the node does that.
func (v *viewer) get(path string) int {
	req, err := http.NewRequest(http.MethodGet, v.base+path, nil)
	if err != nil {
		v.t.Fatal(err)
	}
	req.Header.Set("Accept-Encoding", "gzip")
	res, err := v.Do(req)
	if err != nil {
		v.t.Error(err)
		return 0
	}
	defer res.Body.Close()
	n, err := io.Copy(io.Discard, res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		v.t.Errorf("%s: %s, %v", path, res.Status, err)
	}
	return int(n)
}

// spent is how many seconds of a processor the first node takes while viewers look at its map, each
// asking every 3 s as the page does.
func spent(t *testing.T, c *processes, length time.Duration, viewers []*viewer) float64 {
	t.Helper()
	before, end := cpuOf(t, c.nodes[0].cmd.Process.Pid), time.Now().Add(length)
	done := make(chan struct{})
	for i, v := range viewers {
		go func() {
			defer func() { done <- struct{}{} }()
			time.Sleep(time.Duration(i) * 400 * time.Millisecond)
			for time.Now().Before(end) {
				v.get("api/panel/map")
				time.Sleep(3 * time.Second)
			}
		}()
	}
	time.Sleep(length)
	for range viewers {
		<-done
	}
	return cpuOf(t, c.nodes[0].cmd.Process.Pid) - before
}

// cpuOf is how many seconds of a processor a process has taken.
func cpuOf(t *testing.T, pid int) float64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Skip("there is no /proc here: ", err)
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	ticks := 0
	for _, x := range f[11:13] {
		n, err := strconv.Atoi(x)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return float64(ticks) / 100
}
