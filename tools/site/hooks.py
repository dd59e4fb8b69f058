"""What `mkdocs build` does besides: the script that draws diagrams becomes a file of the site.

Material for MkDocs fetches it from another site unless the page has it already. `make site` puts the
release that the Makefile names into dist/mermaid.
"""
import pathlib
import re

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "dist" / "mermaid" / "package"


def on_files(files, config):
    for source, name in (("dist/mermaid.min.js", "assets/mermaid.min.js"), ("LICENSE", "assets/mermaid.LICENSE.txt")):
        path = PACKAGE / source
        if not path.is_file():
            raise PluginError(f"{path} is missing: build the site by 'make site'")
        files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_post_page(output, page, config):
    """Leave the script, which is large, out of pages that draw nothing."""
    if 'class="mermaid"' in output:
        return output
    return re.sub(r'<script src="[^"]*assets/mermaid\.min\.js"></script>', "", output)
