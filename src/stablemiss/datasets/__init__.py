"""Data sets: synthetic populations with a known optimal prediction, and loaders of real tables."""

from stablemiss.datasets.air_quality import load_air_quality
from stablemiss.datasets.berlin_traffic import load_berlin_traffic
from stablemiss.datasets.flats import make_flats
from stablemiss.datasets.graph import Graph
from stablemiss.datasets.house import load_house_sales
from stablemiss.datasets.mnist import ImageDataset, load_mnist
from stablemiss.datasets.population import Population, make_gaussian, make_gaussian_ind, make_gaussian_mix
from stablemiss.datasets.sensors import SensorData, load_sensor_folder
from stablemiss.datasets.source import Dataset
from stablemiss.datasets.times import hour_of_week, to_regular_grid
from stablemiss.datasets.windows import SensorWindows

__all__ = [
    "Dataset",
    "Graph",
    "ImageDataset",
    "Population",
    "SensorData",
    "SensorWindows",
    "hour_of_week",
    "load_air_quality",
    "load_berlin_traffic",
    "load_house_sales",
    "load_mnist",
    "load_sensor_folder",
    "make_flats",
    "make_gaussian",
    "make_gaussian_ind",
    "make_gaussian_mix",
    "to_regular_grid",
]
