package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Target is where notifications go: a webhook or a command.
type Target struct {
	Name string
	// URL receives messages with POST. Header has more headers of these requests, and Secret signs them if it is not empty.
	URL    string
	Header http.Header
	Secret []byte
	// Command is a program of the scheduler's machine with its arguments. It reads a message from its standard input.
	Command []string
	// Allow has loopback and link-local addresses that the webhook may have. Without it, a name that leads to such an
	// address is refused, because a scheduler's own machine often trusts what comes from itself.
	Allow []netip.Prefix
}

// Type returns "webhook" or "command".
func (t *Target) Type() string {
	if len(t.Command) > 0 {
		return "command"
	}
	return "webhook"
}

// patience is how long a delivery may take.
const patience = 5 * time.Second

// SignatureHeader and TimeHeader authenticate a message: the first is "sha256=" and the HMAC of the time, a dot and the body.
const (
	SignatureHeader = "Weir-Signature"
	TimeHeader      = "Weir-Time"
)

// Sign returns the value of SignatureHeader. The time is in seconds since 1970, as in TimeHeader.
func Sign(secret []byte, unix int64, body []byte) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write(strconv.AppendInt(nil, unix, 10))
	mac.Write([]byte{'.'})
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// courier delivers the messages of one target.
type courier struct {
	target *Target
	client *http.Client
}

func newCourier(t *Target) *courier {
	dialer := &net.Dialer{Timeout: patience, Control: func(_, address string, _ syscall.RawConn) error { return t.permits(address) }}
	return &courier{target: t, client: &http.Client{
		Timeout: patience,
		// No proxy: it would resolve names itself.
		Transport:     &http.Transport{DialContext: dialer.DialContext, TLSHandshakeTimeout: patience, MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// ErrForbiddenAddress reports that a webhook leads to an address of the scheduler's own machine or link.
var ErrForbiddenAddress = errors.New("notifications are not sent to loopback, link-local, multicast and unspecified addresses, unless the target's `allow` lists them")

// permits checks the address that a name was resolved to.
func (t *Target) permits(address string) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	ip := at.Addr().Unmap()
	for _, prefix := range t.Allow {
		if prefix.Contains(ip) {
			return nil
		}
	}
	if ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified() {
		return fmt.Errorf("%w: %s", ErrForbiddenAddress, ip)
	}
	return nil
}

// deliver sends a message once.
func (c *courier) deliver(ctx context.Context, now time.Time, m *Message) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	body := m.Body()
	if len(c.target.Command) > 0 {
		return run(ctx, c.target.Command, body)
	}
	return c.post(ctx, now, body)
}

func (c *courier) post(ctx context.Context, now time.Time, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.target.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	for name, values := range c.target.Header {
		request.Header[name] = values
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set(TimeHeader, strconv.FormatInt(now.Unix(), 10))
	if len(c.target.Secret) > 0 {
		request.Header.Set(SignatureHeader, Sign(c.target.Secret, now.Unix(), body))
	}
	response, err := c.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10)) // to use the connection again
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("the webhook answered %s", response.Status)
	}
	return nil
}

// maxOutput is how much of a command's output an error quotes.
const maxOutput = 1 << 10

// run runs a command with a message on its standard input.
func run(ctx context.Context, command []string, body []byte) error {
	var output bytes.Buffer
	process := exec.CommandContext(ctx, command[0], command[1:]...)
	process.Stdin, process.Env = bytes.NewReader(body), []string{"PATH=/usr/local/bin:/usr/bin:/bin"}
	process.Stdout, process.Stderr = &capped{&output}, &capped{&output}
	process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	process.Cancel = func() error { return syscall.Kill(-process.Process.Pid, syscall.SIGKILL) }
	process.WaitDelay = time.Second
	err := process.Run()
	switch text := strings.TrimSpace(output.String()); {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s did not end within %v", command[0], patience)
	case text != "":
		return fmt.Errorf("%s: %w: %s", command[0], err, text)
	}
	return fmt.Errorf("%s: %w", command[0], err)
}

// capped keeps the beginning of what is written.
type capped struct{ into *bytes.Buffer }

func (c *capped) Write(p []byte) (int, error) {
	if room := maxOutput - c.into.Len(); room > 0 {
		c.into.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}
