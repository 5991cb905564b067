"""All routes of the API, for its description and for API Gateway."""

from typing import Final

from handlers.gather import routes as of_gathers
from handlers.rank import routes as of_rankings
from handlers.search import routes as of_searches
from handlers.tables import routes as of_tables

ROUTES: Final = (*of_gathers.ROUTES, *of_rankings.ROUTES, *of_tables.ROUTES, *of_searches.ROUTES)
