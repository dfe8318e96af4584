"""The dashboard: act to pixel, many pages at once, the first load of each page."""
