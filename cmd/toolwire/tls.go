package main

import (
	"crypto/tls"
	"crypto/x509"
	"os"

	"github.com/nats-io/nats.go"
	"github.com/spf13/pflag"
)

// tlsFlags are files of this side of a TLS connection: a client's, or in `up` and `server` the server's.
type tlsFlags struct {
	cert, key, ca string
}

func (f *connFlags) registerTLS(p *pflag.FlagSet) {
	p.StringVar(&f.tls.cert, "tls-cert", "", "certificate `file` of this side (TOOLWIRE_TLS_CERT)")
	p.StringVar(&f.tls.key, "tls-key", "", "its key `file` (TOOLWIRE_TLS_KEY)")
	p.StringVar(&f.tls.ca, "tls-ca", "", "`file` with the authorities that the other side's certificate is to be of (TOOLWIRE_TLS_CA)")
}

func (f tlsFlags) pair() error {
	if (f.cert == "") != (f.key == "") {
		return usagef("--tls-cert and --tls-key go together: the certificate, and its key")
	}
	return nil
}

// tlsOptions are those of a client.
func (a *app) tlsOptions() (o []nats.Option, err error) {
	f := tlsFlags{
		a.setting(a.conn.tls.cert, "TOOLWIRE_TLS_CERT"), a.setting(a.conn.tls.key, "TOOLWIRE_TLS_KEY"), a.setting(a.conn.tls.ca, "TOOLWIRE_TLS_CA"),
	}
	if err := f.pair(); err != nil {
		return nil, err
	}
	if f.cert != "" {
		if _, err := tls.LoadX509KeyPair(f.cert, f.key); err != nil {
			return nil, usagef("certificate: %v; give PEM files with --tls-cert and --tls-key", err)
		}
		o = append(o, nats.ClientCert(f.cert, f.key))
	}
	if f.ca != "" {
		if _, err := authorities(f.ca); err != nil {
			return nil, err
		}
		o = append(o, nats.RootCAs(f.ca))
	}
	return o, nil
}

// serverTLS is what a server of this process wants of its clients; nil: no TLS. With authorities it wants
// certificates of theirs, too.
func (f tlsFlags) serverTLS() (*tls.Config, error) {
	if f == (tlsFlags{}) {
		return nil, nil //nolint:nilnil // nil is a configuration: none
	}
	if err := f.pair(); err != nil {
		return nil, err
	}
	if f.cert == "" {
		return nil, usagef("a server with --tls-ca needs a certificate of its own: give --tls-cert and --tls-key")
	}
	cert, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return nil, usagef("certificate: %v; give PEM files with --tls-cert and --tls-key", err)
	}
	c := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	if f.ca != "" {
		pool, err := authorities(f.ca)
		if err != nil {
			return nil, err
		}
		c.ClientCAs, c.RootCAs, c.ClientAuth = pool, pool, tls.RequireAndVerifyClientCert
	}
	return c, nil
}

func authorities(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file) //nolint:gosec // as the user says
	if err != nil {
		return nil, usagef("authorities: %v; give a PEM file with --tls-ca", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, usagef("authorities: %s has no certificate in it; give a PEM file with --tls-ca", file)
	}
	return pool, nil
}
