package workload

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Target is one region of the system under test.
type Target struct {
	// Region names it in reports.
	Region string
	// URLs of its servers, as mysql://user:password@host:port/database. Query parameters are those
	// of github.com/go-sql-driver/mysql, e.g. ?tls=skip-verify; ?socket=/path takes a unix socket
	// instead of host:port.
	URLs []string
}

// ParseTargets makes targets of command-line values: "region=mysql://..." or only the URL, which is
// then a region called after its host and port. URLs of the same region form one target; regions
// keep the order of their first URL.
func ParseTargets(values []string) ([]Target, error) {
	if len(values) == 0 {
		return nil, errors.New("no URL: give at least one --url mysql://user:password@host:port/database")
	}
	var targets []Target
	index := map[string]int{}
	for _, v := range values {
		region, rest, named := strings.Cut(v, "=")
		if !named || strings.Contains(region, "://") {
			region, rest = "", v
		}
		cfg, err := parseURL(rest)
		if err != nil {
			return nil, err
		}
		if region == "" {
			region = cfg.Addr
		}
		i, ok := index[region]
		if !ok {
			i = len(targets)
			index[region] = i
			targets = append(targets, Target{Region: region})
		}
		targets[i].URLs = append(targets[i].URLs, rest)
	}
	return targets, nil
}

// parseURL turns a mysql:// URL into a driver configuration.
func parseURL(s string) (*mysql.Config, error) {
	fail := func(why string) error {
		return fmt.Errorf("bad URL %q: %s; expected mysql://user:password@host:port/database", redact(s), why)
	}
	u, err := url.Parse(s)
	if err != nil {
		return nil, fail("it does not parse")
	}
	if u.Scheme != "mysql" {
		return nil, fail("the scheme is not mysql")
	}
	db := strings.TrimPrefix(u.Path, "/")
	if db == "" {
		return nil, fail("the database name is missing")
	}
	if strings.ContainsAny(db, "/`") {
		return nil, fail("the database name has a slash or a backquote")
	}
	params := u.Query()
	network, addr := "tcp", u.Host
	if sock := params.Get("socket"); sock != "" {
		network, addr = "unix", sock
		params.Del("socket")
	} else {
		if u.Hostname() == "" {
			return nil, fail("the host is missing")
		}
		if u.Port() == "" {
			addr = u.Host + ":3306"
		}
	}
	// The driver's own parser knows the types of its parameters.
	cfg, err := mysql.ParseDSN(fmt.Sprintf("%s(%s)/?%s", network, addr, params.Encode()))
	if err != nil {
		return nil, fail(err.Error())
	}
	cfg.DBName = db
	if u.User != nil {
		cfg.User = u.User.Username()
		cfg.Passwd, _ = u.User.Password()
	} else {
		cfg.User = "root"
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 10 * time.Second // dial only
	}
	return cfg, nil
}

// redact removes the password from a URL for messages.
func redact(s string) string {
	if u, err := url.Parse(s); err == nil {
		return u.Redacted()
	}
	if _, after, ok := strings.Cut(s, "@"); ok {
		return "...@" + after
	}
	return s
}

// pool is an opened target.
type pool struct {
	region string
	dbs    []*sql.DB
	text   bool
	setup  []string // statements for each new connection
}

// openTargets prepares pools; it makes no connection yet.
func openTargets(targets []Target, opts Options) ([]*pool, error) {
	if len(targets) == 0 {
		return nil, errors.New("no target: give at least one region with a URL")
	}
	var pools []*pool
	seen := map[string]bool{}
	for i, t := range targets {
		if len(t.URLs) == 0 {
			closePools(pools)
			return nil, fmt.Errorf("region %q has no URL", t.Region)
		}
		if seen[t.Region] {
			closePools(pools)
			return nil, fmt.Errorf("region %q is given twice: put its URLs into one target", t.Region)
		}
		seen[t.Region] = true
		p := &pool{region: t.Region, text: opts.Text}
		if p.region == "" {
			p.region = fmt.Sprintf("region-%d", i+1)
		}
		if opts.Isolation != "" {
			p.setup = append(p.setup, "SET SESSION TRANSACTION ISOLATION LEVEL "+opts.Isolation)
		}
		pools = append(pools, p)
		for _, u := range t.URLs {
			cfg, err := parseURL(u)
			if err != nil {
				closePools(pools)
				return nil, err
			}
			db, err := openDB(cfg, opts.Text)
			if err != nil {
				closePools(pools)
				return nil, err
			}
			p.dbs = append(p.dbs, db)
		}
	}
	return pools, nil
}

func openDB(cfg *mysql.Config, text bool) (*sql.DB, error) {
	cfg.InterpolateParams = text
	cfg.ParseTime = false // times travel as text, see sqlTime
	// every error is returned and counted; none needs a line on stderr too
	cfg.Logger = &mysql.NopLogger{}
	c, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("bad URL for %s: %w", cfg.Addr, err)
	}
	db := sql.OpenDB(c)
	db.SetMaxIdleConns(0) // a session owns its connection from the first statement to its end
	return db, nil
}

func closePools(pools []*pool) {
	for _, p := range pools {
		for _, db := range p.dbs {
			_ = db.Close() // a pool that is given up has nothing pending
		}
	}
}
