"""Lambda entry point: searches the deployment's catalog for GET /area, for GET /scenes and as a STAC API.

The function reads the catalog and writes nothing.
"""

from aws_lambda_powertools import Logger

from handlers.api.problems import STAC_KINDS
from handlers.api.resolver import Resolver, handler_of
from handlers.deployment.settings import Settings
from handlers.search.answer_area import add_area
from handlers.search.answer_stac import add_stac_api
from handlers.search.open_catalog import OpenCatalog
from handlers.search.routes import ROUTES

logger = Logger()
catalog = OpenCatalog(Settings.from_environment())
app = Resolver(ROUTES, logger, kinds=STAC_KINDS)
add_area(app, catalog)
add_stac_api(app, catalog)
handler = handler_of(app, logger)
