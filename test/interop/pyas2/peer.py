"""A partner made of pyas2lib. Takes AS2 messages at /, sends what is posted to /send/CASE, tells at /received/CASE.

The only argument is a file of JSON: host, port, key (PEM of key and certificate), and cases: see `PyAs2Case` in pyas2.ts.
"""
import base64
import http.client
import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

# oscrypto 1.3.0 does not find the version in «OpenSSL 3.0.19»: it expects parts of one digit.
_search = re.search
re.search = lambda pattern, *rest: _search(
    "\\b(\\d+\\.\\d+\\.\\d+[a-z]*)\\b" if pattern == "\\b(\\d\\.\\d\\.\\d[a-z]*)\\b" else pattern, *rest
)
from oscrypto import asymmetric  # noqa: E402,F401
from pyas2lib import as2  # noqa: E402

re.search = _search

with open(sys.argv[1], encoding="utf-8") as file:
    CONFIG = json.load(file)


class Case:
    def __init__(self, settings):
        certificate = settings["partnerCertificate"].encode()
        self.url = settings["partnerUrl"]
        self.own_name = settings["as2Id"]
        self.partner_name = settings["partnerAs2Id"]
        self.received = []
        key = CONFIG["key"].encode()
        self.organization = as2.Organization(
            as2_name=self.own_name, sign_key=key, decrypt_key=key, domain="pyas2.example"
        )
        self.partner = as2.Partner(
            as2_name=self.partner_name,
            verify_cert=certificate,
            encrypt_cert=certificate,
            validate_certs=False,
            **settings["partner"],
        )


CASES = {settings["name"]: Case(settings) for settings in CONFIG["cases"]}


def find(own_name, partner_name):
    for case in CASES.values():
        if (case.own_name, case.partner_name) == (own_name, partner_name):
            return case.organization, case.partner
    return None, None


def raw(headers, body):
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    return lines.encode("latin-1") + b"\r\n" + body


def text(value):
    return value.decode() if isinstance(value, bytes) else value


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        case = CASES.get(self.path.removeprefix("/received/"))
        self.answer_json([] if case is None else case.received)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path.startswith("/send/"):
            self.answer_json(self.send(body))
        else:
            self.take(body)

    def take(self, body):
        message = as2.Message()
        status, (error, _), mdn = message.parse(raw(self.headers.items(), body), find_org_partner_cb=find)
        case = next((each for each in CASES.values() if each.organization is message.receiver), None)
        if case is not None:
            content = message.payload.get_payload(decode=True)
            case.received.append(
                {
                    "status": status,
                    "error": None if error is None else str(error),
                    "fileName": message.payload.get_filename(),
                    "content": base64.b64encode(content or b"").decode(),
                    "signed": message.signed,
                    "encrypted": message.encrypted,
                    "compressed": message.compressed,
                    "mic": text(message.mic),
                }
            )
        if mdn is None:
            self.answer([], b"")
        else:
            self.answer(mdn.headers.items(), mdn.content)

    def send(self, body):
        url = urlsplit(self.path)
        case = CASES[url.path.removeprefix("/send/")]
        message = as2.Message(case.organization, case.partner)
        message.build(
            body,
            filename=parse_qs(url.query)["name"][0],
            subject="From pyas2lib",
            content_type="application/octet-stream",
        )
        target = urlsplit(case.url)
        connection = http.client.HTTPConnection(target.hostname, target.port, timeout=120)
        connection.request("POST", target.path, body=message.content, headers=message.headers)
        response = connection.getresponse()
        answer = response.read()
        connection.close()
        told = {"httpStatus": response.status, "messageId": message.message_id, "mic": text(message.mic)}
        if case.partner.mdn_mode is None:
            return {**told, "status": None, "detail": None}
        status, detail = as2.Mdn().parse(raw(response.getheaders(), answer), lambda *_: message)
        return {**told, "status": status, "detail": text(detail)}

    def answer(self, headers, body, status=200):
        self.send_response(status)
        for name, value in headers:
            # An HTTP header is one line.
            self.send_header(name, re.sub(r"\s*\n\s*", " ", value))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def answer_json(self, value):
        self.answer([("Content-Type", "application/json")], json.dumps(value).encode())

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer((CONFIG["host"], CONFIG["port"]), Handler)
print("ready", flush=True)
server.serve_forever()
