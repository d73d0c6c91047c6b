"""Widget of an experiment in a notebook."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anywidget
import traitlets

from botorch_pref.ax import PreferenceExperiment
from botorch_pref.errors import BotorchPrefError, ExperimentError
from botorch_pref.web.app import SCRIPT, STYLE
from botorch_pref.web.contents import Media, NumberTable, Show, data_address
from botorch_pref.web.rendering import AskError
from botorch_pref.web.service import CALLS, PreferenceService


class QuestionWidget(anywidget.AnyWidget):
    """Widget that asks the questions of an experiment in a notebook.

    End a cell with it. What is answered is stored at once, as by ``tell``.

    Args:
        experiment: Whose questions they are.
        show: See `make_app`.
    """

    _esm = SCRIPT
    _css = STYLE
    name = traitlets.Unicode().tag(sync=True)

    def __init__(
        self, experiment: PreferenceExperiment, show: Show | NumberTable | None = None
    ) -> None:
        service = PreferenceService(experiment, _address, show=show, apart=False)
        super().__init__(name=service.name)
        self._service = service
        # Cells run while a question is chosen.
        self._calls = ThreadPoolExecutor(4, thread_name_prefix="answer")
        self.on_msg(self._called)

    def close(self) -> None:
        """Ends the widget and its threads; what was answered is kept."""
        self._calls.shutdown(wait=False, cancel_futures=True)
        self._service.close()
        super().close()

    def _called(self, widget: Any, message: Any, buffers: Any) -> None:
        """Answers a call of the script, in a thread."""
        self._calls.submit(self._answer, dict(message))

    def _answer(self, message: dict[str, Any]) -> None:
        reply: dict[str, Any] = {"id": message.get("id")}
        try:
            call = CALLS.get(message.get("call", ""))
            if call is None:
                raise ExperimentError(f"There is no call {message.get('call')!r}.")
            reply["found"] = call(self._service, dict(message.get("given") or {}))
        except AskError as error:
            reply |= {"error": str(error), **error.details}
        except BotorchPrefError as error:
            reply["error"] = str(error)
        # A script that hears nothing would wait for ever.
        except Exception as error:
            reply["error"] = f"{type(error).__name__}: {error}"
            raise
        finally:
            self.send(reply)


def _address(index: int, option: int, part: int, media: Media) -> str:
    return data_address(media)
