package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// authority makes certificates, all for this machine.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.cert, a.key = a.make("ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil, nil)
	return a
}

// leaf makes a certificate of the authority: name.pem and name.key.
func (a *authority) leaf(name string) (cert, key string) {
	a.t.Helper()
	a.make(name, &x509.Certificate{
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, a.key)
	return a.file(name + ".pem"), a.file(name + ".key")
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

func (a *authority) make(name string, c, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	if parent == nil {
		parent, signer = c, key
	}
	c.SerialNumber, c.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{name + ".pem": {Type: "CERTIFICATE", Bytes: der}, name + ".key": {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(a.file(file), pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return made, key
}

// output is written by a command and read by a test at once.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write is for the command.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// background runs a command until the test ends, and returns what it says once it says word.
func background(t *testing.T, home, word string, args ...string) string {
	t.Helper()
	var out, stderr output
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, args, []string{"HOME=" + home}, streams{strings.NewReader(""), &out, &stderr})
	}()
	t.Cleanup(func() {
		stop()
		if exit := <-ended; exit != 0 {
			t.Errorf("%s: exit %d, %s", args[0], exit, stderr.String())
		}
	})
	if !poll(func() bool { return strings.Contains(out.String(), word) }) {
		t.Fatalf("%s does not say %q: %q %q", args[0], word, out.String(), stderr.String())
	}
	return out.String()
}

// With a certificate, `up` speaks TLS only; with an authority, it wants certificates of its clients; and both
// go with credentials.
func TestTLS(t *testing.T) {
	t.Parallel()
	ca, home := newAuthority(t), t.TempDir()
	cert, key := ca.leaf("server")
	mine, mineKey := ca.leaf("client")
	foreign, foreignKey := newAuthority(t).leaf("foreign")
	plain := []string{"up", "--addr", "127.0.0.1:0", "--store", filepath.Join(home, "one"), "--tls-cert", cert, "--tls-key", key}
	strict := []string{
		"up", "--addr", "127.0.0.1:0", "--store", filepath.Join(home, "two"), "--tls-cert", cert, "--tls-key", key,
		"--tls-ca", ca.file("ca.pem"), "--auth-dir", filepath.Join(home, "keys"),
	}
	url := func(said string) string { return strings.Fields(said[strings.Index(said, "tls://"):])[0] }
	one := strings.TrimSuffix(url(background(t, home, "Try", plain...)), ",")
	two := strings.TrimSuffix(url(background(t, home, "Try", strict...)), ",")
	creds := filepath.Join(home, "keys", "creds", "local.creds")
	for _, c := range []struct {
		name, url string
		args      []string
		exit      int
		says      string
	}{
		{"trusted", one, []string{"--tls-ca", ca.file("ca.pem")}, 0, "get_current_time"},
		{"unknown authority", one, nil, 9, "its certificate is not trusted"},
		{"no certificate", two, []string{"--tls-ca", ca.file("ca.pem"), "--creds", creds}, 9, "--tls-cert"},
		{"foreign certificate", two, []string{"--tls-ca", ca.file("ca.pem"), "--creds", creds, "--tls-cert", foreign, "--tls-key", foreignKey}, 9, "--tls-cert"},
		{"no credentials", two, []string{"--tls-ca", ca.file("ca.pem"), "--tls-cert", mine, "--tls-key", mineKey}, 9, "--creds"},
		{"all", two, []string{"--tls-ca", ca.file("ca.pem"), "--tls-cert", mine, "--tls-key", mineKey, "--creds", creds}, 0, "get_current_time"},
		{"half a pair", two, []string{"--tls-cert", mine}, 2, "go together"},
		{"no authority", two, []string{"--tls-ca", mineKey}, 2, "has no certificate in it"},
		{"no file", two, []string{"--tls-ca", "nowhere"}, 2, "give a PEM file with --tls-ca"},
		{"not its key", two, []string{"--tls-cert", mine, "--tls-key", foreignKey}, 2, "certificate:"},
	} {
		exit, out, stderr := command(t, t.Context(), append([]string{"tools", "ls", "--server", c.url}, c.args...)...)
		if exit != c.exit || !strings.Contains(out+stderr, c.says) {
			t.Errorf("%s: exit %d, %q %q, want %d, %q", c.name, exit, out, stderr, c.exit, c.says)
		}
	}
	for says, args := range map[string][]string{
		"--tls-cert and --tls-key": {"server", "--tls-ca", ca.file("ca.pem")},
		"go together":              {"up", "--tls-key", key},
		"the nodes have to prove":  {"server", "--auth-dir", filepath.Join(home, "other"), "--cluster", "127.0.0.1:0", "--store", filepath.Join(home, "three"), "--addr", "127.0.0.1:0"},
	} {
		if exit, _, stderr := command(t, t.Context(), args...); exit == 0 || !strings.Contains(stderr, says) {
			t.Errorf("%q: exit %d, %q, want %q", args, exit, stderr, says)
		}
	}
}

// The nodes of a cluster with credentials know each other by their certificates, and take the same credentials.
func TestClusterWithCredentials(t *testing.T) {
	t.Parallel()
	ca, home := newAuthority(t), t.TempDir()
	cert, key := ca.leaf("node")
	secure := []string{"--tls-cert", cert, "--tls-key", key, "--tls-ca", ca.file("ca.pem")}
	keys := filepath.Join(home, "keys")
	if exit, _, stderr := command(t, t.Context(), "auth", "init", "--dir", keys); exit != 0 {
		t.Fatal(stderr)
	}
	if exit, _, stderr := command(t, t.Context(), "auth", "add", "dispatcher", "d", "--dir", keys); exit != 0 {
		t.Fatal(stderr)
	}
	// The nodes need no secret.
	if err := os.Rename(filepath.Join(keys, "keys"), filepath.Join(home, "kept")); err != nil {
		t.Fatal(err)
	}
	routes := []string{freeAddr(t), freeAddr(t), freeAddr(t)}
	urls := "nats://" + strings.Join(routes, ",nats://")
	var at string
	for i, route := range routes {
		args := append([]string{
			"server", "--name", "n" + string(rune('1'+i)), "--addr", "127.0.0.1:0", "--store", filepath.Join(home, "n"+string(rune('1'+i))),
			"--cluster", route, "--routes", urls, "--auth-dir", keys,
		}, secure...)
		said := background(t, home, "listening", args...)
		at = strings.TrimSuffix(strings.Fields(said[strings.Index(said, "tls://"):])[0], ",")
	}
	background(t, home, "", append([]string{
		"dispatcher", "--server", at, "--creds", filepath.Join(keys, "creds", "d.creds"), "--replicas", "3",
	}, secure...)...)
	if !poll(func() bool {
		exit, out, _ := command(t, t.Context(), append([]string{
			"doctor", "--no-call", "--server", at, "--creds", filepath.Join(keys, "creds", "d.creds"),
		}, secure...)...)
		return exit == 0 && strings.Contains(out, "each on 3 servers")
	}) {
		t.Error("the cluster does not come up")
	}
}

// freeAddr is an address that is free, and not of the range from which the system gives ports to others.
func freeAddr(t *testing.T) string {
	t.Helper()
	addr := ""
	if !poll(func() bool {
		n, err := rand.Int(rand.Reader, big.NewInt(10000))
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.FormatInt(20000+n.Int64(), 10)))
		if err != nil {
			return false
		}
		addr = l.Addr().String()
		return l.Close() == nil
	}) {
		t.Fatal("no port is free")
	}
	return addr
}
