package toolstest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/pkg/tools/sendonce"
	"github.com/leasehold/leasehold/pkg/tools/toolstest"
)

const hour = time.Hour

// honest is an adapter as a user might write one over the client that sends
// once.
type honest struct {
	url    string
	client *sendonce.Client
	class  tools.Class
}

type asking struct{ *honest }

func (a *honest) Call(ctx context.Context, req tools.Request) tools.Outcome {
	x := a.do(ctx, http.MethodPost, req, req.Body)
	o := tools.Outcome{Kind: tools.Unknown, Detail: "status " + strconv.Itoa(x.Status)}
	if s, err := strconv.Atoi(x.Header.Get("Retry-After")); err == nil {
		o.RetryAfter = time.Duration(s) * time.Second
	} else if at, err := http.ParseTime(x.Header.Get("Retry-After")); err == nil {
		sent, _ := http.ParseTime(x.Header.Get("Date"))
		o.RetryAfter = at.Sub(sent)
	}
	switch {
	case x.Err != nil && !x.Sent:
		o.Kind = tools.NotSent
	case x.Err != nil:
	case x.Status == http.StatusOK:
		o.Kind, o.Result = tools.Succeeded, x.Body
	case x.Status == http.StatusAccepted, x.Status == http.StatusConflict && a.class == tools.ClassIdempotencyKey:
		o.Kind = tools.InProgress
	case x.Status == http.StatusTooManyRequests:
		o.Kind = tools.NotExecuted
	case x.Status == http.StatusUnprocessableEntity:
		o.Kind = tools.KeyConflict
	}
	return o
}

func (a *honest) do(ctx context.Context, method string, req tools.Request, body []byte) sendonce.Exchange {
	u, _ := url.Parse(a.url + "/effects")
	return a.client.Do(ctx, sendonce.Request{
		Method: method, URL: u, Body: body,
		Header: http.Header{"X-Operation-Id": {string(req.OperationID)}, "Idempotency-Key": {string(req.OperationID)}},
	})
}

func (a asking) Query(ctx context.Context, req tools.Request) tools.Outcome {
	x := a.do(ctx, http.MethodGet, req, nil)
	switch {
	case x.Err != nil:
	case x.Status == http.StatusNotFound:
		return tools.Outcome{Kind: tools.Absent}
	case x.Status == http.StatusOK:
		var found struct{ Digest string }
		if json.Unmarshal(x.Body, &found) == nil && found.Digest != "" && found.Digest != req.Digest {
			return tools.Outcome{Kind: tools.KeyConflict}
		}
		return tools.Outcome{Kind: tools.Succeeded, Result: x.Body}
	}
	return tools.Outcome{Kind: tools.Unknown}
}

// suite runs an honest adapter, or what wrap makes of it.
func suite(c tools.Capabilities, d toolstest.Dialect, wrap func(tools.Adapter, *toolstest.HTTP) tools.Adapter) toolstest.Suite {
	c.MaxRequestMS = 30_000
	d.Found = func(w http.ResponseWriter, e toolstest.Effect) {
		toolstest.Answer(w, http.StatusOK, map[string]string{"id": e.ID, "digest": digest(e)})
	}
	return toolstest.Suite{Start: func(t testing.TB) (toolstest.Remote, tools.Tool) {
		remote := toolstest.NewHTTP(t, d)
		client := sendonce.New(sendonce.Options{})
		t.Cleanup(client.Close)
		h := &honest{url: remote.URL, client: client, class: c.Class}
		var adapter tools.Adapter = h
		if c.Query {
			adapter = asking{h}
		}
		if wrap != nil {
			adapter = wrap(adapter, remote)
		}
		return remote, tools.Tool{Name: "kit", Adapter: adapter, Capabilities: c, Slots: 1}
	}}
}

func digest(e toolstest.Effect) string {
	if e.Foreign {
		return "another's"
	}
	return digestOf(e.Body)
}

// plain is the standard client, with all its helpfulness.
func plain(ctx context.Context, target string, req tools.Request) (*http.Response, error) {
	hreq, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(req.Body))
	if err != nil {
		return nil, err
	}
	hreq.Header.Set("X-Operation-Id", string(req.OperationID))
	hreq.Header.Set("Idempotency-Key", string(req.OperationID))
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(hreq)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if _, err := io.ReadAll(resp.Body); err != nil {
		return nil, errors.New("half an answer")
	}
	return resp, nil
}
