package cli

import (
	"archive/tar"
	"archive/zip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/node/bundle"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/sql/recorded"
)

func debugCommand() *cobra.Command {
	c := &cobra.Command{Use: "debug", Short: "Collect what somebody needs who looks for a fault"}
	c.AddCommand(debugZipCommand())
	return c
}

// collection is a bundle of all nodes in the making.
type collection struct {
	endpoint
	profile time.Duration
	maxMB   int64
	records bool

	mu     sync.Mutex // of what follows; nodes answer at once
	zip    *zip.Writer
	at     time.Time
	failed []string // what is missing, a line each
}

const (
	// maxEntry bounds one file of one node, in bytes: a node cuts its files to less.
	maxEntry = 32 << 20
)

func debugZipCommand() *cobra.Command {
	var d collection
	c := &cobra.Command{
		Use:   "zip FILE.zip",
		Short: "Collect state, logs, metrics and profiles of all nodes in one file",
		Long: `Ask all nodes of the cluster for what somebody needs who looks for a fault, and write it to a new file, which only
this user can read: versions, flags, topology, status, health, settings, jobs, the newest lines of the logs, metrics, what
the cluster has decided by itself and why, the schema without data, and profiles.

Passwords, tokens and keys, literals of statements, and values of rows are left out. Names of tables, columns, users,
regions and hosts are in there. Look at the file before you give it away.

It asks --addr for the addresses of the nodes, and then all nodes at once, from this machine. --timeout bounds each of the
two, and so half of the whole. A node that does not answer is noted in errors.txt in its folder, and in the one at the top;
the others are collected all the same. The exit status is 0 if at least one node has answered.

Nodes with --insecure give profiles only if they run with --pprof.`,
		Example: "  godwit debug zip fault.zip --addr 127.0.0.1:7400\n  godwit debug zip fault.zip --profile 10s --timeout 1m",
		Args:    oneArg("the name of the file to write"),
		RunE: d.talks(func(c *cobra.Command, args []string) error {
			switch {
			case d.profile < 0 || d.profile > bundle.MaxProfile:
				return usagef("--profile: %s is outside 0 to %s", d.profile, bundle.MaxProfile)
			case d.timeout > 15*time.Minute:
				return usagef("--timeout: %s is more than 15m", d.timeout)
			case d.profile*2 > d.timeout:
				return usagef("--profile: %s is more than half of --timeout, %s", d.profile, d.timeout)
			case d.maxMB < 1:
				return usagef("--max-mb: %d is below 1", d.maxMB)
			}
			return d.write(c, args[0])
		}),
	}
	d.flags(c.Flags())
	c.Flags().Lookup("timeout").DefValue = "30s"
	c.Flags().Lookup("timeout").Usage = "how long to wait for the list of the nodes, and then for the nodes"
	d.timeout = 30 * time.Second
	c.Flags().DurationVar(&d.profile, "profile", 3*time.Second, "how long the processors are profiled; 0: not at all")
	c.Flags().Int64Var(&d.maxMB, "max-mb", 256, "MiB that the nodes together may send; what is more is left out")
	c.Flags().BoolVar(&d.records, "recording", false, "add what clients did lately, with other literals, for godwit whatif --from")
	return c
}

// write makes the file, or leaves none.
func (d *collection) write(c *cobra.Command, file string) (err error) {
	if _, err := os.Lstat(file); err == nil {
		return usagef("%s exists: name a new file", file)
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".godwit-debug-*") // for its owner only
	if err != nil {
		return err
	}
	remove := func() { _ = os.Remove(f.Name()) } // it may have another name by now
	defer atForcedExit(remove)()
	defer remove()
	defer f.Close()
	d.zip, d.at = zip.NewWriter(f), time.Now()
	nodes, answered, err := d.collect(c.Context())
	if err != nil {
		return err
	}
	if err := errors.Join(d.zip.Close(), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), file); err != nil {
		return err
	}
	for _, line := range d.failed {
		c.PrintErrln("godwit: " + line)
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "%s has what %d of %d nodes know; look at it before you give it away\n", file, answered, nodes)
	return err
}

// manifest says what a file is.
type manifest struct {
	At      time.Time `json:"at"`
	Took    string    `json:"took"`
	Version string    `json:"version"` // of this command
	Cluster string    `json:"cluster_id,omitempty"`
	Asked   string    `json:"asked"`
	Nodes   []source  `json:"nodes"`
}

// source is a node that is asked.
type source struct {
	ID       base.NodeID `json:"id,omitempty"`
	Region   string      `json:"region,omitempty"`
	Addr     string      `json:"addr"`
	Live     bool        `json:"live"` // as the node that was asked first sees it
	Answered bool        `json:"answered"`
}

// folder is where a node's files are.
func (s *source) folder() string {
	if s.ID == 0 {
		return "nodes/asked"
	}
	return fmt.Sprintf("nodes/%d", s.ID)
}

// collect asks all nodes.
func (d *collection) collect(ctx context.Context) (nodes, answered int, err error) {
	m := manifest{At: d.at.UTC(), Version: obs.Version(), Asked: d.addr}
	m.Nodes, m.Cluster, err = d.sources(ctx)
	if err != nil {
		// Without a cluster, the node that was asked may still say why.
		d.failed = append(d.failed, "the list of the nodes: "+err.Error())
		m.Nodes = []source{{Addr: d.addr, Live: true}}
	}
	errs := make([]error, len(m.Nodes))
	var wg sync.WaitGroup
	for i := range m.Nodes {
		wg.Go(func() { errs[i] = d.node(ctx, &m.Nodes[i], d.maxMB<<20/int64(len(m.Nodes))) })
	}
	wg.Wait()
	if ctx.Err() != nil {
		return 0, 0, errInterrupted
	}
	for i := range m.Nodes {
		s := &m.Nodes[i]
		if s.Answered {
			answered++
		}
		if errs[i] == nil {
			continue
		}
		d.failed = append(d.failed, fmt.Sprintf("%s (%s, %s): %v", s.folder(), s.Region, s.Addr, errs[i]))
		if err := d.add(s.folder()+"/"+bundle.ErrorsName, []byte(plain(errs[i]).Error()+"\n")); err != nil {
			return 0, 0, err
		}
	}
	if answered == 0 {
		return 0, 0, errors.New("no node has answered, and no file is written:\n" + strings.Join(d.failed, "\n"))
	}
	if err := d.recording(ctx); err != nil {
		return 0, 0, err
	}
	m.Took = time.Since(d.at).Round(time.Millisecond).String()
	text, err := json.MarshalIndent(m, "", " ")
	if err == nil {
		err = d.add("manifest.json", text)
	}
	if err == nil {
		err = d.add(bundle.ErrorsName, []byte(strings.Join(append(d.failed, ""), "\n")))
	}
	return len(m.Nodes), answered, err
}

// recording adds what clients did lately, as the asked node collects it from all.
func (d *collection) recording(ctx context.Context) error {
	if !d.records {
		return nil
	}
	var raw json.RawMessage
	if err := d.call(ctx, recorded.Path, struct{}{}, &raw); err != nil {
		d.failed = append(d.failed, recordingName+": "+err.Error())
		return nil
	}
	return d.add(recordingName, raw)
}

// sources are the nodes of the cluster, as the one at --addr knows them.
func (d *collection) sources(ctx context.Context) (out []source, id string, err error) {
	_, s, err := askStatus(ctx, &d.endpoint)
	if err != nil {
		return nil, "", err
	}
	live := map[base.NodeID]bool{}
	for _, n := range s.Nodes {
		live[n.ID] = n.Live
	}
	for _, n := range s.Topology.Nodes {
		if !n.Gone {
			out = append(out, source{ID: n.ID, Region: s.Topology.RegionName(n.Region), Addr: n.AdminAddr(), Live: live[n.ID]})
		}
	}
	if len(out) == 0 {
		return nil, "", d.stranger(errors.New("it names no nodes"))
	}
	return out, s.ClusterID, nil
}

// node adds what a node knows. It has answered if a file of it has come.
func (d *collection) node(ctx context.Context, s *source, room int64) error {
	e := d.endpoint
	e.addr = s.Addr
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	res, err := e.send(ctx, bundle.Path, bundle.Request{Profile: d.profile,
		Within: e.timeout * 2 / 3}) // what it has then can still be sent
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode/100 != 2 {
		if err := e.read(ctx, bundle.Path, res, nil); err != nil {
			return err
		}
		return e.stranger(errors.New(res.Status))
	}
	return d.unpack(ctx, &e, s, tar.NewReader(io.LimitReader(res.Body, room)))
}

// unpack adds the files of a stream as they come. An error says that the stream is not whole.
func (d *collection) unpack(ctx context.Context, e *endpoint, s *source, t *tar.Reader) error {
	for {
		h, err := t.Next()
		if err != nil {
			return d.partly(ctx, e, s, err)
		}
		name := path.Clean("/" + h.Name)[1:]
		if h.Typeflag != tar.TypeReg || name == "" || h.Size > maxEntry {
			return e.stranger(fmt.Errorf("it sends %q of %d bytes", h.Name, h.Size))
		}
		body, err := io.ReadAll(t)
		if err != nil {
			return d.partly(ctx, e, s, err)
		}
		last := name == bundle.ErrorsName
		if !last || len(body) > 0 {
			if err := d.add(s.folder()+"/"+name, body); err != nil {
				return err
			}
		}
		s.Answered = true
		if last {
			if len(body) > 0 {
				d.note(s, strings.Count(string(body), "\n"))
			}
			return nil
		}
	}
}

// partly is why a stream has ended too early.
func (d *collection) partly(ctx context.Context, e *endpoint, s *source, err error) error {
	if !s.Answered {
		return e.explain(ctx, err)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("files are missing: it had not sent all within %s", e.timeout)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("files are missing: the node has ended, or more than its part of --max-mb (%d) would have come", d.maxMB)
	}
	return fmt.Errorf("files are missing: %w", err)
}

// note says that a node could not tell something.
func (d *collection) note(s *source, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failed = append(d.failed, fmt.Sprintf("%s (%s, %s): %d of its files are missing or cut, see %s/%s", s.folder(), s.Region, s.Addr, n,
		s.folder(), bundle.ErrorsName))
}

// add adds a file.
func (d *collection) add(name string, body []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: d.at}
	h.SetMode(0o600)
	w, err := d.zip.CreateHeader(h)
	if err != nil {
		return err
	}
	_, err = w.Write(body)
	return err
}
