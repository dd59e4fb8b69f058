package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sassoftware/go-rpmutils"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

// TestMain works in the module's folder, as the command does.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		fail(err)
	}
	os.Exit(m.Run())
}

// wanted are the files of a package and their modes.
var wanted = map[string]int64{
	"/usr/bin/godwit": 0o755, "/usr/lib/systemd/system/godwit.service": 0o644, "/etc/godwit/godwit.yaml": 0o644,
	"/usr/share/man/man1/godwit.1.gz": 0o644, "/usr/share/man/man1/godwit-start.1.gz": 0o644,
	"/usr/share/bash-completion/completions/godwit": 0o644, "/usr/share/zsh/vendor-completions/_godwit": 0o644,
	"/usr/share/fish/vendor_completions.d/godwit.fish": 0o644, "/usr/share/godwit/grafana/godwit.json": 0o644,
	"/usr/share/godwit/prometheus/alerts.yaml": 0o644, "/usr/share/doc/godwit/copyright": 0o644,
	"/usr/share/doc/godwit/godwit.cdx.json": 0o644,
}

// fakeDist is what `make release` makes, with words for a binary.
func fakeDist(t *testing.T) string {
	dir := t.TempDir()
	for name, text := range map[string]string{"godwit": "the binary", "godwit.cdx.json": "{}", "man/godwit.1.gz": ".TH GODWIT 1", "man/godwit-start.1.gz": ".TH START 1",
		"completion/godwit.bash": "# bash", "completion/_godwit": "# zsh", "completion/godwit.fish": "# fish"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestPackages builds both packages, and looks at what is in them.
func TestPackages(t *testing.T) {
	dist, out := fakeDist(t), t.TempDir()
	for kind, look := range map[string]func(*testing.T, string) (map[string]int64, string){"deb": lookDeb, "rpm": lookRPM} {
		path, err := build(kind, "v1.2.3", "arm64", dist, out)
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		files, control := look(t, path)
		for name, mode := range wanted {
			if got, ok := files[name]; !ok || got != mode {
				t.Errorf("%s: %s has mode %o (%v), want %o", kind, name, got, ok, mode)
			}
		}
		for name := range files {
			if _, ok := wanted[name]; !ok {
				t.Errorf("%s has %s", kind, name)
			}
		}
		for _, want := range []string{"godwit", "1.2.3", "useradd", "systemctl"} {
			if !strings.Contains(control, want) {
				t.Errorf("%s: what it says of itself lacks %s: %s", kind, want, control)
			}
		}
	}
	if _, err := build("deb", "", "amd64", dist, out); err == nil {
		t.Error("a package without a version was built")
	}
}

// lookDeb reads the members of an ar archive that are tars.
func lookDeb(t *testing.T, path string) (map[string]int64, string) {
	b, err := os.ReadFile(path)
	if err != nil || !bytes.HasPrefix(b, []byte("!<arch>\n")) {
		t.Fatalf("no ar archive: %v", err)
	}
	files, control := map[string]int64{}, ""
	for b = b[8:]; len(b) >= 60; {
		name := strings.TrimRight(string(b[:16]), " /")
		size, err := strconv.Atoi(strings.TrimSpace(string(b[48:58])))
		if err != nil {
			t.Fatal(err)
		}
		body := b[60 : 60+size]
		b = b[60+size+size%2:]
		if !strings.HasSuffix(name, ".tar.gz") {
			continue
		}
		z, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for r := tar.NewReader(z); ; {
			h, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case name == "control.tar.gz":
				control += string(text)
			case h.Typeflag == tar.TypeReg:
				files["/"+strings.TrimLeft(h.Name, "./")] = h.Mode & 0o777
			}
		}
	}
	if !strings.Contains(control, "Architecture: arm64") || !strings.Contains(control, "/etc/godwit/godwit.yaml") {
		t.Errorf("deb: %s", control)
	}
	return files, control
}

func lookRPM(t *testing.T, path string) (map[string]int64, string) {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := rpmutils.ReadRpm(f)
	if err != nil {
		t.Fatal(err)
	}
	infos, err := r.Header.GetFiles()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]int64{}
	for _, x := range infos {
		if x.Mode()&0o170000 == 0o100000 {
			files[x.Name()] = int64(x.Mode() & 0o777)
		}
	}
	n, err := r.Header.GetNEVRA()
	if err != nil || n.Arch != "aarch64" {
		t.Errorf("rpm: %v, %v", n, err)
	}
	control := fmt.Sprint(n)
	for _, tag := range []int{rpmutils.POSTIN, rpmutils.PREUN} {
		if s, err := r.Header.GetString(tag); err == nil {
			control += s
		}
	}
	return files, control
}

// TestUnit: systemd finds nothing wrong with the unit.
func TestUnit(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	b, err := os.ReadFile("deploy/systemd/godwit.service")
	if err != nil {
		t.Fatal(err)
	}
	// The binary is not installed here.
	unit := filepath.Join(t.TempDir(), "godwit.service")
	if err := os.WriteFile(unit, bytes.ReplaceAll(b, []byte("/usr/bin/godwit"), []byte("/bin/true")), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("systemd-analyze", "verify", "--man=no", unit).CombinedOutput()
	for _, line := range strings.Split(string(out), "\n") {
		if strings.Contains(line, "godwit.service") {
			t.Errorf("systemd-analyze: %s", line)
		}
	}
	if err != nil && strings.Contains(string(out), "godwit.service") {
		t.Error(err)
	}
	// 0 is the least exposed, 10 the most. What is left is what the node needs: the network, and
	// the clock.
	if out, err := exec.Command("systemd-analyze", "security", "--offline=true", "--threshold=35", unit).CombinedOutput(); err != nil {
		t.Errorf("the unit has rights that it does not need: %v %s", err, out[max(0, len(out)-300):])
	}
}

// TestManifests: each document of the manifest is what the types of Kubernetes say, without unknown
// fields, and its parts know each other.
func TestManifests(t *testing.T) {
	b, err := os.ReadFile("deploy/kubernetes/region.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var services []corev1.Service
	var set appsv1.StatefulSet
	var budget policyv1.PodDisruptionBudget
	for _, doc := range bytes.Split(b, []byte("\n---\n")) {
		var kind struct{ Kind string }
		if err := yaml.Unmarshal(doc, &kind); err != nil {
			t.Fatal(err)
		}
		switch kind.Kind {
		case "Service":
			var s corev1.Service
			err = yaml.UnmarshalStrict(doc, &s)
			services = append(services, s)
		case "StatefulSet":
			err = yaml.UnmarshalStrict(doc, &set)
		case "PodDisruptionBudget":
			err = yaml.UnmarshalStrict(doc, &budget)
		default:
			err = fmt.Errorf("the test does not know it")
		}
		if err != nil {
			t.Errorf("%s: %v", kind.Kind, err)
		}
	}
	labels := set.Spec.Template.Labels
	for _, s := range services {
		if s.Spec.Selector["app"] != labels["app"] {
			t.Errorf("service %s selects %v", s.Name, s.Spec.Selector)
		}
	}
	if len(services) != 2 || services[0].Name != set.Spec.ServiceName || services[0].Spec.ClusterIP != "None" ||
		!services[0].Spec.PublishNotReadyAddresses || budget.Spec.Selector.MatchLabels["app"] != labels["app"] ||
		set.Spec.Selector.MatchLabels["app"] != labels["app"] {
		t.Error("services, budget and set do not belong together")
	}
	c := set.Spec.Template.Spec.Containers[0]
	pod := set.Spec.Template.Spec.SecurityContext
	if !*pod.RunAsNonRoot || *c.SecurityContext.AllowPrivilegeEscalation || !*c.SecurityContext.ReadOnlyRootFilesystem {
		t.Error("the container has rights that it does not need")
	}
	mounts := map[string]bool{}
	for _, v := range set.Spec.Template.Spec.Volumes {
		mounts[v.Name] = true
	}
	for _, v := range set.Spec.VolumeClaimTemplates {
		mounts[v.Name] = true
	}
	for _, m := range c.VolumeMounts {
		if !mounts[m.Name] {
			t.Errorf("nothing is called %s that could be mounted", m.Name)
		}
	}
	var ports []string
	for _, p := range c.Ports {
		ports = append(ports, p.Name)
	}
	if !slices.Contains(ports, c.ReadinessProbe.HTTPGet.Port.StrVal) || !slices.Contains(ports, c.LivenessProbe.TCPSocket.Port.StrVal) {
		t.Error("probes ask ports that the container has not")
	}
}

// TestFlags: the flags in the manifest, the unit and the configuration are those of the commands.
func TestFlags(t *testing.T) {
	b, err := os.ReadFile("cmd/cli/start.go")
	if err != nil {
		t.Fatal(err)
	}
	known := func(flag string) bool { return strings.Contains(string(b), `"`+flag+`"`) }
	var set appsv1.StatefulSet
	docs, err := os.ReadFile("deploy/kubernetes/region.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(docs[bytes.LastIndex(docs, []byte("\n---\n")):], &set); err != nil {
		t.Fatal(err)
	}
	for _, a := range set.Spec.Template.Spec.Containers[0].Args[1:] {
		if name, _, _ := strings.Cut(strings.TrimPrefix(a, "--"), "="); !known(name) {
			t.Errorf("godwit start has no flag --%s", name)
		}
	}
	conf, err := os.ReadFile("deploy/package/godwit.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var keys map[string]any
	if err := yaml.Unmarshal(conf, &keys); err != nil {
		t.Fatal(err)
	}
	for k := range keys {
		if !known(k) {
			t.Errorf("godwit start has no flag --%s", k)
		}
	}
}

// TestDockerfile: the image has a user without rights, and fetches nothing.
func TestDockerfile(t *testing.T) {
	b, err := os.ReadFile("deploy/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for _, want := range []string{"\nFROM scratch\n", "\nUSER 65532:65532\n", "\nENTRYPOINT [\"/godwit\"]\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no line %q", strings.TrimSpace(want))
		}
	}
	for _, no := range []string{"\nRUN ", "\nADD ", "http:", "https:", "curl", "apt-get"} {
		if strings.Contains(text, no) {
			t.Errorf("it has %q", no)
		}
	}
}
