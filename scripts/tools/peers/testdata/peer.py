"""A client on Python's websockets: see peers_test.go for what it does."""
import asyncio
import base64
import json
import sys

import websockets

mode, url, token, file = (sys.argv[1:] + ["", ""])[:4]
headers = {"Authorization": "Bearer " + token} if token else {}


def connect():
    return websockets.connect(url, extra_headers=headers, max_size=None)


def check(holds, text):
    if not holds:
        sys.exit(text)


async def refused(status):
    try:
        async with connect():
            sys.exit("the connection was accepted")
    except websockets.InvalidStatusCode as e:
        check(e.status_code == status, f"status {e.status_code}, want {status}")


async def ping(ws):
    await asyncio.wait_for(await ws.ping("are you there"), 10)


async def converse():
    async with connect() as ws:
        last, size = 0, 0

        async def answer(n):
            """Reads up to the answer of a call, and counts the output."""
            nonlocal size
            while True:
                text = await ws.recv()
                check(isinstance(text, str), "a binary message came")
                message = json.loads(text)
                if message.get("method") == "process/output":
                    size += len(base64.b64decode(message["params"]["chunk"]))
                if n == message.get("method") or "id" in message and n == message["id"]:
                    check("error" not in message, text)
                    return message.get("result")

        async def call(method, params, fragments=lambda text: text):
            nonlocal last
            last += 1
            await ws.send(fragments(json.dumps({"id": last, "method": method, "params": params})))
            return await answer(last)

        await call("initialize", {"clientName": "websockets"})
        await ws.send(json.dumps({"method": "initialized"}))
        start = {"argv": ["head", "-c", "3000000", "/dev/zero"], "cwd": "file:///", "env": {}, "tty": False}
        await call("process/start", {"processId": "p", **start})
        await answer("process/closed")
        check(size == 3000000, f"{size} bytes of output came")
        content = base64.b64encode(b"x" * (3 << 20)).decode()
        # An iterable is sent in fragments.
        await call("fs/writeFile", {"path": file, "dataBase64": content}, lambda text: [text[:1000], text[1000:]])
        metadata = await call("fs/getMetadata", {"path": file})
        check(metadata["size"] == 3 << 20, f"the file has {metadata['size']} bytes")
        await ping(ws)
        await ws.close(1000, "done")
        check(ws.close_code == 1000, f"closed with {ws.close_code}")


async def relay():
    async with connect() as ws:
        await ping(ws)
        await ws.send("no frame of the relay")
        await ws.send(b"x" * 100000)
        await ping(ws)
        await ws.close(1000, "done")
        check(ws.close_code == 1000, f"closed with {ws.close_code}")


asyncio.run({"converse": converse, "relay": relay}[mode]() if not mode.isdigit() else refused(int(mode)))
