"""Front end of the texts of a run over hosts: the first host chooses it for all. No TensorFlow.

Which one it is may follow from a checkpoint, and only the first host has those.
"""

from __future__ import annotations

from voxyard import __version__
from voxyard.trainer.config import TrainConfig
from voxyard.trainer.hosts.addresses import host_group
from voxyard.trainer.hosts.meeting import meet
from voxyard.trainer.text.front_end import with_text_front_end

CHOSEN = ("text_units", "language", "read_words")


def with_shared_text_front_end(config: TrainConfig) -> TrainConfig:
    """See `with_text_front_end`; over hosts what is not given on a host is as on the first one.

    What is given otherwise stays, and the hosts refuse each other where they compare their settings. Raises
    TrainerError or CorpusError.
    """
    group = host_group(config)
    if group is None:
        return with_text_front_end(config)
    tell = {}
    if group.is_first:
        config = with_text_front_end(config)
        tell = {name: getattr(config.model, name) for name in CHOSEN}
    told = meet(group, {"voxyard": __version__}, wait=config.training.hosts_wait, allow_mixed=True, tell=tell)
    missing = [name for name in CHOSEN if getattr(config.model, name) in (None, "auto")]
    config = config.changed({f"model.{name}": told[name] for name in missing})
    return config if group.is_first else with_text_front_end(config)
