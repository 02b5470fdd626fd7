package jet_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/internal/natstest"
)

func dial(url string) (*jet.Link, error) {
	return jet.Dial(url, func(opts ...nats.Option) (*nats.Conn, error) { return nats.Connect(url, opts...) })
}

// listen runs a server with a port and the given options.
func listen(t *testing.T, o server.Options) string {
	t.Helper()
	o.Host, o.Port, o.NoLog, o.NoSigs = "127.0.0.1", server.RANDOM_PORT, true, true
	o.StoreDir = t.TempDir()
	s, err := server.NewServer(&o)
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("nats-server is not ready")
	}
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	return s.ClientURL()
}

// pretend answers each connection with one line, as a server of another kind or age would.
func pretend(t *testing.T, line string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				_, _ = fmt.Fprintf(c, "%s\r\n", line)
				for in := bufio.NewScanner(c); in.Scan(); {
					if in.Text() == "PING" {
						_, _ = fmt.Fprint(c, "PONG\r\n")
					}
				}
			}()
		}
	}()
	return "nats://" + l.Addr().String()
}

func nobody(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return "nats://" + l.Addr().String()
}

func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func TestDialExplains(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		url  string
		want error
		says string
	}{
		{"nobody listens", nobody(t), jet.ErrUnreachable, "toolwire up"},
		{"no such host", "nats://toolwire.invalid:4222", jet.ErrUnreachable, "--server"},
		{"another protocol", pretend(t, "SSH-2.0-OpenSSH_9.9"), jet.ErrUnreachable, "may not be NATS"},
		{
			"too old", pretend(t, `INFO {"server_id":"x","version":"2.10.29","proto":1,"headers":true,"max_payload":1048576}`),
			jet.ErrServer, "2.10.29 is too old, 2.14 or newer",
		},
		{"password wanted", listen(t, server.Options{Username: "u", Password: "p"}), jet.ErrRefused, "--creds"},
		{
			"unknown authority",
			listen(t, server.Options{TLS: true, TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate(t)}}}),
			jet.ErrRefused, "certificate is not trusted",
		},
	} {
		l, err := dial(c.url)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want %v saying %q", c.name, err, c.want, c.says)
		}
		if l != nil {
			t.Errorf("%s: got a connection", c.name)
			l.Close()
		}
	}
}

func TestDialTakesNewAndOddVersions(t *testing.T) {
	t.Parallel()
	for _, v := range []string{"2.14.0", "2.15.0-RC.1", "3.0.0", "v2.20.1", "devel"} {
		l, err := dial(pretend(t, `INFO {"server_id":"x","version":"`+v+`","proto":1,"headers":true,"max_payload":1048576}`))
		if err != nil {
			t.Errorf("%s: %v", v, err)
			continue
		}
		l.Close()
	}
}

func TestCheckJetStream(t *testing.T) {
	t.Parallel()
	user := func(p *server.Permissions) server.Options {
		return server.Options{JetStream: true, Users: []*server.User{{Username: "u", Password: "p", Permissions: p}}}
	}
	only := func(subjects ...string) *server.SubjectPermission { return &server.SubjectPermission{Allow: subjects} }
	for name, c := range map[string]struct {
		o    server.Options
		want error
		says string
	}{
		"fine":      {server.Options{JetStream: true}, nil, ""},
		"off":       {server.Options{}, jet.ErrServer, "-js"},
		"no right":  {user(&server.Permissions{Publish: only("x"), Subscribe: only(">")}), jet.ErrDenied, `publish to "$JS.API.INFO"`},
		"no inbox":  {user(&server.Permissions{Publish: only(">"), Subscribe: only("x")}), jet.ErrDenied, `subscription to "_INBOX`},
		"all right": {user(nil), nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := dial(strings.Replace(listen(t, c.o), "://", "://u:p@", 1))
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			info, err := l.CheckJetStream(ctx)
			if !errors.Is(err, c.want) || err != nil && !strings.Contains(err.Error(), c.says) || (info == nil) != (err != nil) {
				t.Errorf("got %v, %v, want %v saying %q", info, err, c.want, c.says)
			}
			if again, err := l.CheckJetStream(ctx); !errors.Is(err, c.want) || (again == nil) != (info == nil) {
				t.Errorf("asked again: %v, %v, want %v", again, err, c.want)
			}
			if ctx.Err() != nil {
				t.Error("it took the whole time")
			}
			if denied := errors.Is(c.want, jet.ErrDenied); denied != (l.DeniedError() != nil) || denied != (len(l.Denied()) > 0) {
				t.Errorf("denied: %v", l.Denied())
			}
		})
	}
}

func TestInspect(t *testing.T) {
	t.Parallel()
	b := natstest.Start(t).Bus()
	findings, err := b.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(findings) < 10 {
		t.Errorf("got %d streams and buckets", len(findings))
	}
	for _, f := range findings {
		if f.Info == nil || len(f.Wrong) > 0 {
			t.Errorf("%s: %v, want no finding", f.Name, f.Wrong)
		}
	}
}

func TestInspectFindsWhatBreaksAPromise(t *testing.T) {
	t.Parallel()
	b := natstest.Start(t).Bus()
	js := b.JetStream()
	change := func(name string, edit func(*jetstream.StreamConfig)) {
		s, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		c := s.CachedInfo().Config
		edit(&c)
		if _, err := js.UpdateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	change(b.JournalStream(), func(c *jetstream.StreamConfig) {
		c.MaxMsgsPerSubject, c.DiscardNewPerSubject, c.AllowDirect, c.RePublish = -1, false, true, nil
	})
	change(b.CallsStream(), func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour })
	change(b.TimersStream(), func(c *jetstream.StreamConfig) { c.Subjects = append(c.Subjects, "mine") })
	if err := js.DeleteStream(t.Context(), b.BodiesStream()); err != nil {
		t.Fatal(err)
	}
	findings, err := b.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, words := range map[string][]string{
		b.JournalStream(): {"max messages per subject is 0", "discard new per subject is false", "direct reads is true", "live copy"},
		b.CallsStream():   {"max age is 1h0m0s"},
		b.TimersStream():  {"mine"},
		b.WorkStream():    nil,
	} {
		i := slices.IndexFunc(findings, func(f jet.Finding) bool { return f.Name == name })
		got := strings.Join(findings[i].Wrong, "; ")
		for _, w := range words {
			if !strings.Contains(got, w) {
				t.Errorf("%s: got %q, want %q", name, got, w)
			}
		}
		if len(words) == 0 && got != "" {
			t.Errorf("%s: got %q", name, got)
		}
	}
	if i := slices.IndexFunc(findings, func(f jet.Finding) bool { return f.Name == b.BodiesStream() }); findings[i].Info != nil {
		t.Error("the missing stream was found")
	}
}

func TestInspectAnotherInstallation(t *testing.T) {
	t.Parallel()
	s, err := events.NewSubjects("elsewhere")
	if err != nil {
		t.Fatal(err)
	}
	b, err := jet.NewBus(natstest.Start(t).Conn(), s)
	if err != nil {
		t.Fatal(err)
	}
	findings, err := b.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		if f.Info != nil || !strings.HasPrefix(strings.ToLower(f.Name), "elsewhere") && !strings.HasPrefix(f.Name, "KV_elsewhere") {
			t.Errorf("got %+v", f)
		}
	}
}
