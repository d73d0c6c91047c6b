"""Widget of an experiment in a notebook."""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from botorch_pref.ax import PreferenceExperiment
from botorch_pref.errors import BotorchPrefError, ExperimentError
from botorch_pref.web.call_arguments import status_of
from botorch_pref.web.media import Media
from botorch_pref.web.rendering import NumberTable, Show
from botorch_pref.web.service import READS, WRITES, PreferenceService
from botorch_pref.web.texts import STATIC, PageTexts


class QuestionWidget(anywidget.AnyWidget):
    """Widget that asks the questions of an experiment in a notebook.

    End a cell with it. What is answered is stored at once, as by ``tell``.

    Args:
        experiment: Whose questions they are.
        show: See `make_app`.
        size: How many options a question shows; by default
            `PreferenceExperiment.default_size`.
        plane: See `make_app`.
        kinds: See `make_app`.
        title: See `make_app`, as the next two.
        question: What is asked of the options.
        introduction: A text above the question until somebody has answered one.
        language: See `make_app`.
    """

    _esm = STATIC / "question.js"
    _css = STATIC / "question.css"
    name = traitlets.Unicode().tag(sync=True)
    texts = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        experiment: PreferenceExperiment,
        show: Show | NumberTable | None = None,
        size: int | None = None,
        *,
        plane: bool = False,
        kinds: Collection[str] | None = None,
        title: str | None = None,
        question: str | None = None,
        introduction: str | None = None,
        language: str | Mapping[str, str] = "en",
    ) -> None:
        """Makes the service, and takes the calls of the script in the notebook."""
        texts = PageTexts(title, question, introduction, language)
        service = PreferenceService(
            experiment,
            data_address,
            show=show,
            kinds=kinds,
            size=size,
            plane=plane,
            texts=texts,
            separate_process=False,
        )
        super().__init__(name=service.name, texts=texts.table)
        self._service = service
        # Cells run while a question is chosen.
        self._calls = ThreadPoolExecutor(4, thread_name_prefix="answer")
        self.on_msg(self._on_call)

    def close(self) -> None:
        """Ends the widget and its threads; what was answered is kept."""
        self._calls.shutdown(wait=False, cancel_futures=True)
        self._service.close()
        super().close()

    def _on_call(self, widget: Any, message: Any, buffers: Any) -> None:
        """Answers a call of the script, in a thread."""
        self._calls.submit(self._answer, dict(message))

    def _answer(self, message: dict[str, Any]) -> None:
        """Makes the call of the service that a message asks for, and sends the reply.

        The script in ``question.js`` knows both by their keys.
        """
        reply: dict[str, Any] = {"id": message.get("id")}
        try:
            call = message.get("call")
            if call not in READS + WRITES:
                raise ExperimentError(f"There is no call {call!r}.")
            arguments = dict(message.get("given") or {})
            reply["found"] = getattr(self._service, call)(arguments)
        except BotorchPrefError as error:
            reply |= {"error": str(error), "status": status_of(error)}
            reply |= getattr(error, "details", {})
        # A script without a reply would wait for ever.
        except Exception as error:
            reply |= {"error": f"{type(error).__name__}: {error}", "status": 500}
            raise
        finally:
            self.send(reply)


def data_address(index: int, option: int, part: int, media: Media) -> str:
    """Makes an address that holds the bytes, since a notebook has no server for them.

    The numbers of the question, the option and its part are for servers.
    """
    data = media.data.read_bytes() if isinstance(media.data, Path) else media.data
    return f"data:{media.mime};base64,{base64.b64encode(data).decode()}"
