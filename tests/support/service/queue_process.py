"""A service without its HTTP, as a process that can be killed: `queue_process.py DATA MARKS DOCUMENTS CHUNKS`.

It accepts the documents, each under its idempotency key, says `accepted N` for each that is in the store, and ends
when all are completed: a process of a worker speaks a dozen chunks, and the others once MARKS holds "on".
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from documents import SAMPLES, new_document, no_upload

from voxyard.service.audio.files import AudioFolder
from voxyard.service.audio.store import AudioStore
from voxyard.service.config import ServiceSection
from voxyard.service.documents.queue import DocumentQueue
from voxyard.service.documents.store import Store
from voxyard.speech.audio.joining import Pauses
from voxyard.speech.engine import EngineSpec
from voxyard.speech.pool.limits import PoolLimits
from voxyard.speech.pool.pool import Pool
from voxyard.speech.pool.worker_process import Device

WORKERS, ROWS = 2, 4


def main(data: Path, marks: Path, documents: int, chunks: int) -> None:
    """Serve until everything is completed."""
    store = Store(data / "store.sqlite")
    audio_store = AudioStore(AudioFolder(data / "audio"), quota=2**30)
    settings = {"marks": str(marks), "rows": ROWS, "samples": SAMPLES, "seconds": 0.1, "held": 12}
    engine = EngineSpec("documents:marking", settings)
    with Pool(engine, [Device(f"cpu {number}") for number in range(WORKERS)], limits=PoolLimits(backoff=0.01)) as pool:
        queue = DocumentQueue(
            store, audio_store, pool, ServiceSection(active_documents=3), Pauses(), read_upload=no_upload
        )
        queue.start()
        for number in range(documents):
            queue.accept(new_document(number, chunks, idempotency_key=f"key {number}", fingerprint="the same"))
            print("accepted", number, flush=True)
        while store.counts()["completed"] < documents:
            time.sleep(0.01)
        queue.close()
    store.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
